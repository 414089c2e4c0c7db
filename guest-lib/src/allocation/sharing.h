// Memory shared with other processes, as pools need it, too (docs/sharing.md).
#ifndef OUTBOARD_SHARING_H
#define OUTBOARD_SHARING_H

#include <stdint.h>

#include "memory/memory.h"
#include "memory/share_name.h"

// A share name for a plain allocation, which waits for what is still done with it.
CUresult sharing_offer(const struct allocation *found, struct share_name *share_name);
// Maps what a share name of another process stands for, or finds where it is mapped already.
// `pool`: the handle of the imported pool that it is of, or 0.
CUresult sharing_open(const struct share_name *share_name, uint64_t pool, CUdeviceptr *address);
// Whether memory is of an imported pool, so that what frees a pool's memory closes it.
static inline _Bool sharing_is_of_pool(const struct allocation *found) {
  return found->kind == ALLOCATION_IMPORTED && found->pool;
}
// Once for each time it was opened, or once for all.
CUresult sharing_close(CUdeviceptr address, _Bool at_once);

// A descriptor of a file that holds a share name and what it is for; -1 when there can be none.
int sharing_create_note(uint64_t magic, const struct share_name *share_name);
// `handle` is the descriptor as CUDA passes it. False: it is of no such file.
_Bool sharing_read_note(const void *handle, uint64_t magic, struct share_name *share_name);

#endif
