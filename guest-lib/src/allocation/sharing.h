// Memory shared with other processes, as pools need it, too (docs/sharing.md). All functions are
// called without the memory lock.
#ifndef OUTBOARD_SHARING_H
#define OUTBOARD_SHARING_H

#include <stdint.h>

#include "memory/memory.h"
#include "memory/share_name.h"

// Asks the server for a share name of a plain allocation, once all work of its session is done.
// CUDA_ERROR_INVALID_VALUE when there is no such allocation any more, or the errors of the work and
// of the question.
CUresult sharing_offer(const struct allocation *found, struct share_name *share_name);
// Maps the memory that a share name of another process stands for in the thread's session, and sets
// *address to it. Where the current context has it mapped already, that is counted once more.
// `pool` is the handle of the imported pool that it is of, or 0. CUDA_ERROR_OUT_OF_MEMORY, or the
// errors of asking the server.
CUresult sharing_open(const struct share_name *share_name, uint64_t pool, CUdeviceptr *address);
// Whether an allocation is of an imported pool: to free it is to close it (sharing_close).
static inline _Bool sharing_is_of_pool(const struct allocation *found) {
  return found->kind == ALLOCATION_IMPORTED && found->pool;
}
// Undoes one sharing_open, or `at_once` all of them. The last has the server unmap the memory,
// which waits for the work that uses it. CUDA_ERROR_INVALID_VALUE when nothing is open at
// `address`.
CUresult sharing_close(CUdeviceptr address, _Bool at_once);

// Makes a file that holds a share name and, as `magic`, what it is for. Returns its descriptor,
// which is the caller's, or -1 when the system refuses.
int sharing_create_note(uint64_t magic, const struct share_name *share_name);
// Reads such a file; `handle` is its descriptor as CUDA passes it. False when it is none with that
// magic.
_Bool sharing_read_note(const void *handle, uint64_t magic, struct share_name *share_name);

#endif
