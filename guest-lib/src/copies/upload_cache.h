// The upload cache: large uploads are asked for by the hashes of their parts first, and only parts
// that the server has not kept are sent (docs/upload-cache.md).
#ifndef OUTBOARD_UPLOAD_CACHE_H
#define OUTBOARD_UPLOAD_CACHE_H

#include <stdatomic.h>
#include <stdint.h>

#include "copies/copy.h"
#include "cuda_driver.h"
#include "session/session.h"

// Sets from how many bytes on uploads are asked for, as the Welcome has said it; 0 stands for "the
// server keeps none".
void upload_cache_start(struct session *session, uint64_t from);

// Whether a located copy from the program's memory is to be asked for: bytes in a row, and so many.
static inline _Bool upload_cache_wants(const struct copy *copy) {
  uint64_t from = atomic_load_explicit(&copy->session->upload_cache_from, memory_order_relaxed);
  return __builtin_expect(copy->bytes >= from, 0) && copy->line;
}

// Does what copy_upload (upload.h) does, under the same conditions, by asking first. It waits for
// the server's answers to the questions, but not for the copies.
CUresult upload_cache_copy(const struct copy *copy);

#endif
