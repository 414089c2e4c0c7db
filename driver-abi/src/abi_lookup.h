// The rules of cuGetProcAddress, shared by every library of ours that stands in for libcuda.so.1.
#ifndef ABI_LOOKUP_H
#define ABI_LOOKUP_H

#include "abi_index.h"

#ifdef __cplusplus
extern "C" {
#endif

// One ABI symbol. `function` equals `stub` when the library does not implement it.
struct abi_entry {
  const char *name;
  void *function;
  void *stub;
};

enum abi_variant { ABI_PLAIN, ABI_PER_THREAD };

// A name asked for at `version` or later, in the given default-stream variant, is `entry`.
struct abi_lookup {
  const char *name;
  int version;
  enum abi_variant variant;
  int entry;  // index in abi_entries
};

extern const struct abi_entry abi_entries[ABI_ENTRY_COUNT];
extern const struct abi_lookup abi_lookups[ABI_LOOKUP_COUNT];

// Defined by a library whose implementations are not what it exports: the exported symbols, in the
// order of abi_entries.
extern void *const abi_exports[ABI_ENTRY_COUNT] __attribute__((weak));

enum abi_find_status { ABI_FOUND, ABI_UNKNOWN_NAME, ABI_VERSION_TOO_OLD, ABI_NOT_IMPLEMENTED };

// The newest ABI of `name` not newer than `version`. `per_thread` prefers the per-thread default
// stream variant and falls back to the plain one. On ABI_FOUND, *function is set; on
// ABI_NOT_IMPLEMENTED it is the stub.
enum abi_find_status abi_find(const char *name, int version, int per_thread, void **function);

// The first version of CUDA that had an entry.
int abi_since(int entry);

// Defined by each library: called by a stub with the index of its entry. Says so once in the log,
// counts, and returns the CUresult the caller gets.
int abi_unsupported(int entry);

#ifdef __cplusplus
}
#endif
#endif
