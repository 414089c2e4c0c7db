// Pools of memory for stream-ordered allocation. A pool is the guest's alone: the server sees only
// that memory is put under addresses and taken away. With the memory lock held.
#ifndef OUTBOARD_POOL_H
#define OUTBOARD_POOL_H

#include <stdint.h>

#include "cuda_driver.h"

struct pool {
  int device;
  uint64_t most;  // 0: what the session has
  uint64_t used, high, threshold;
  int reuse[3];
  unsigned borrowers;  // devices that may use its memory, a bit each
  uint64_t name[4];    // by which another process knows it (pool_sharing.c); 0: none does
  _Bool imported;      // it is another process's
};

// A new one; 0 when there can be none.
uint64_t pool_make(int device, uint64_t most);
// The pool behind a live handle, or NULL.
struct pool *pool_find(CUmemoryPool handle);

void pool_empty_all(void);

#endif
