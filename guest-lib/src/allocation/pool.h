// Pools of memory for stream-ordered allocation. A pool is the guest's alone: the server sees only
// that memory is put under addresses and taken away.
#ifndef OUTBOARD_POOL_H
#define OUTBOARD_POOL_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

struct pool {
  int device;
  uint64_t most;  // bytes; 0: what the session has
  uint64_t used, high, threshold;
  int reuse[3];
  unsigned borrowers;  // devices that may use its memory, a bit each
  uint64_t name[4];    // by which another process knows it (pool_sharing.c); 0: none does
  _Bool imported;      // it is another process's
};

// Makes a pool of a device, which may have up to `most` bytes allocated (0: as many as the session
// may), and returns its handle; 0 when there are too many, or no memory.
uint64_t pool_make(int device, uint64_t most);
// Returns the pool behind a live handle, or NULL. The thread follows the handle into its session.
struct pool *pool_find(CUmemoryPool handle);

// Counts nothing as allocated from the pools of the session any more, after a reset of the context.
// The memory lock is held.
void pool_empty_all(struct session *session);

#endif
