#include "abi_lookup.h"

#include <string.h>

// First row of `name`, or -1.
static int first_row(const char *name) {
  int low = 0, high = ABI_LOOKUP_COUNT;
  while (low < high) {
    int middle = low + (high - low) / 2;
    if (strcmp(abi_lookups[middle].name, name) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return low < ABI_LOOKUP_COUNT && strcmp(abi_lookups[low].name, name) == 0 ? low : -1;
}

int abi_since(int entry) {
  int since = 0;
  for (int row = 0; row < ABI_LOOKUP_COUNT; row++) {
    if (abi_lookups[row].entry != entry) continue;
    if (!since || abi_lookups[row].version < since) since = abi_lookups[row].version;
  }
  return since;
}

enum abi_find_status abi_find(const char *name, int version, int per_thread, void **function) {
  int row = first_row(name);
  if (row < 0) return ABI_UNKNOWN_NAME;
  int plain = -1, threaded = -1;
  for (; row < ABI_LOOKUP_COUNT && strcmp(abi_lookups[row].name, name) == 0; row++) {
    if (abi_lookups[row].version > version) continue;
    if (abi_lookups[row].variant == ABI_PER_THREAD)
      threaded = row;
    else
      plain = row;
  }
  int chosen = per_thread && threaded >= 0 ? threaded : plain;
  if (chosen < 0) return ABI_VERSION_TOO_OLD;
  const struct abi_entry *entry = &abi_entries[abi_lookups[chosen].entry];
  *function = abi_exports ? abi_exports[abi_lookups[chosen].entry] : entry->function;
  return entry->function == entry->stub ? ABI_NOT_IMPLEMENTED : ABI_FOUND;
}
