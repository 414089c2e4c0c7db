// Large uploads by hash: what the server has kept of earlier ones need not be sent again.
#ifndef OUTBOARD_UPLOAD_CACHE_H
#define OUTBOARD_UPLOAD_CACHE_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

// From how many bytes on uploads are asked for, by session; where the server keeps none, never.
extern _Atomic uint64_t upload_cache_from[SESSIONS_MAX];

// What the Welcome said, in the session that the thread is in; 0: none.
void upload_cache_start(uint64_t from);

static inline _Bool upload_cache_wants(uint64_t bytes) {
  uint64_t from = atomic_load_explicit(&upload_cache_from[session_here()], memory_order_relaxed);
  return __builtin_expect(bytes >= from, 0);
}

// As copy_upload (copy.h).
CUresult upload_cache_copy(uint64_t destination, const void *source, uint64_t bytes,
                           uint64_t stream);

#endif
