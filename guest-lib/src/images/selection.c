#include "images/selection.h"

#include <string.h>

#include "abi_fatbin.h"

void selection_add(struct selection *selection, int major, int minor) {
  uint32_t capability = (uint32_t)(major * 10 + minor);
  for (unsigned i = 0; i < selection->count; i++)
    if (selection->capability[i] == capability) return;
  if (selection->count < DEVICES_MAX) selection->capability[selection->count++] = capability;
}

// ---- one device --------------------------------------------------------------------------------

// Which code of one architecture there is beside another: for all that follow it, for those of its
// family, for it alone.
enum kind_of_target { PLAIN, FAMILY, ALONE, TARGETS };

static enum kind_of_target target_of(const struct abi_fatbin_entry *entry) {
  if (entry->flags & ABI_FATBIN_ARCH_SPECIFIC) return ALONE;
  return entry->flags & ABI_FATBIN_FAMILY_SPECIFIC ? FAMILY : PLAIN;
}

static _Bool runs(const struct abi_fatbin_entry *entry, uint32_t capability) {
  if (entry->arch > capability) return 0;
  enum kind_of_target target = target_of(entry);
  if (target == ALONE) return entry->arch == capability;
  return (target == PLAIN && entry->kind == ABI_ENTRY_PTX) || entry->arch / 10 == capability / 10;
}

// For a device, the newest architecture of each sort of code that it can use; 0: there is none. A
// driver prefers one sort to another by rules of its own, so it gets the newest of each.
struct choice {
  uint32_t code[TARGETS], ptx[TARGETS];
  // Of PTX that is not above the device, and is for others alone: a software device makes do with
  // it.
  uint32_t other_ptx;
};

static void raise(uint32_t *newest, uint32_t arch) {
  if (arch > *newest) *newest = arch;
}

static _Bool usable(const struct choice *choice) {
  for (int target = 0; target < TARGETS; target++)
    if (choice->code[target] || choice->ptx[target]) return 1;
  return 0;
}

static _Bool has_ptx(const struct choice *choice) {
  return choice->ptx[PLAIN] || choice->ptx[FAMILY] || choice->ptx[ALONE];
}

static void consider(struct choice *choice, const struct abi_fatbin_entry *entry,
                     uint32_t capability) {
  enum kind_of_target target = target_of(entry);
  if (runs(entry, capability))
    raise(entry->kind == ABI_ENTRY_PTX ? &choice->ptx[target] : &choice->code[target], entry->arch);
  else if (entry->kind == ABI_ENTRY_PTX && entry->arch <= capability)
    raise(&choice->other_ptx, entry->arch);
}

static _Bool chosen(const struct choice *choice, const struct abi_fatbin_entry *entry,
                    uint32_t capability) {
  enum kind_of_target target = target_of(entry);
  if (runs(entry, capability))
    return entry->arch ==
           (entry->kind == ABI_ENTRY_PTX ? choice->ptx[target] : choice->code[target]);
  return entry->kind == ABI_ENTRY_PTX && !has_ptx(choice) && entry->arch == choice->other_ptx;
}

// ---- all devices -------------------------------------------------------------------------------

struct choices {
  struct choice of[DEVICES_MAX];
};

// False where everything is to be kept.
static _Bool choose(const struct selection *selection, const void *fatbin, size_t size,
                    struct choices *choices) {
  struct abi_fatbin_reader reader;
  struct abi_fatbin_entry entry;
  memset(choices, 0, sizeof *choices);
  if (!selection || !selection->count || !abi_fatbin_open(&reader, fatbin, size)) return 0;
  while (abi_fatbin_next(&reader, &entry))
    for (unsigned i = 0; i < selection->count; i++)
      if (entry.kind == ABI_ENTRY_PTX || entry.kind == ABI_ENTRY_ELF)
        consider(&choices->of[i], &entry, selection->capability[i]);
  if (reader.malformed) return 0;
  for (unsigned i = 0; i < selection->count; i++)
    if (!usable(&choices->of[i])) return 0;
  return 1;
}

// What is neither code nor PTX is kept: nobody knows what it is for.
static _Bool kept(const struct selection *selection, const struct choices *choices,
                  const struct abi_fatbin_entry *entry) {
  if (entry->kind != ABI_ENTRY_PTX && entry->kind != ABI_ENTRY_ELF) return 1;
  for (unsigned i = 0; i < selection->count; i++)
    if (chosen(&choices->of[i], entry, selection->capability[i])) return 1;
  return 0;
}

size_t selection_size(const struct selection *selection, const void *fatbin, size_t size) {
  struct choices choices;
  struct abi_fatbin_reader reader;
  struct abi_fatbin_entry entry;
  if (!choose(selection, fatbin, size, &choices)) return size;
  abi_fatbin_open(&reader, fatbin, size);
  size_t left = (size_t)(reader.next - (const uint8_t *)fatbin);
  for (const uint8_t *at = reader.next; abi_fatbin_next(&reader, &entry); at = reader.next)
    if (kept(selection, &choices, &entry)) left += (size_t)(reader.next - at);
  return left;
}

_Bool selection_write(const struct selection *selection, const void *fatbin, size_t size, void *to,
                      size_t room) {
  struct choices choices;
  struct abi_fatbin_reader reader;
  struct abi_fatbin_entry entry;
  if (!choose(selection, fatbin, size, &choices)) {
    if (size != room) return 0;
    memcpy(to, fatbin, size);
    return 1;
  }
  if (!abi_fatbin_open(&reader, fatbin, size)) return 0;
  size_t header = (size_t)(reader.next - (const uint8_t *)fatbin), used = header;
  if (header > room) return 0;
  memcpy(to, fatbin, header);
  for (const uint8_t *at = reader.next; abi_fatbin_next(&reader, &entry); at = reader.next) {
    const size_t length = (size_t)(reader.next - at);
    if (!kept(selection, &choices, &entry)) continue;
    if (length > room - used) return 0;
    memcpy((uint8_t *)to + used, at, length);
    used += length;
  }
  abi_fatbin_set_contents(to, used - header);
  return used == room;
}
