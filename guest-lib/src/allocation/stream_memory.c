// Stream-ordered allocation. What the guest hands out is usable at once, in any stream, which is
// more than CUDA promises. What is freed in a stream may be used again at once by allocations of
// the same stream, as its work comes behind the free; elsewhere only when the stream is known to
// have come beyond the free.
#include <stdlib.h>
#include <string.h>

#include "allocation/internal.h"
#include "allocation/pool.h"
#include "allocation/sharing.h"
#include "base/grow.h"
#include "guest_calls.h"
#include "memory/limit.h"
#include "memory/memory_range.h"
#include "memory/share_end.h"
#include "session/context.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/recorder.h"
#include "streams/stream.h"
#include "wire/order.h"

// So many of a stream's frees an allocation looks through for one that fits.
#define LOOKED_THROUGH 32

struct freed {
  uint64_t address;
  uint64_t capacity;
  int device;
  struct stream_position position;  // work up to here may use it
};

// What was freed on one stream, in order.
struct line {
  uint64_t stream;
  struct session *session;  // the legacy stream is one of each
  struct freed *entries;
  size_t first, count, room;
  struct line *next;
};

static struct line *lines;  // none is empty for long

static struct line *line_of(struct session *session, uint64_t stream) {
  for (struct line *line = lines; line; line = line->next)
    if (line->stream == stream && line->session == session) return line;
  return NULL;
}

static struct line *new_line(struct session *session, uint64_t stream) {
  struct line *line = calloc(1, sizeof *line);
  if (!line) return NULL;
  line->stream = stream;
  line->session = session;
  line->next = lines;
  lines = line;
  return line;
}

static CUresult append(struct line *line, const struct freed *freed) {
  if (line->first && line->first + line->count == line->room) {
    memmove(line->entries, line->entries + line->first, line->count * sizeof *line->entries);
    line->first = 0;
  }
  if (!grow(&line->entries, &line->room, line->first + line->count, sizeof *line->entries))
    return CUDA_ERROR_OUT_OF_MEMORY;
  line->entries[line->first + line->count++] = *freed;
  return CUDA_SUCCESS;
}

static void release_passed(struct line *line) {
  while (line->count) {
    struct freed *oldest = &line->entries[line->first];
    if (!stream_has_passed(line->session, line->stream, &oldest->position)) break;
    memory_release(oldest->address);
    line->first++;
    line->count--;
  }
  if (!line->count) line->first = 0;
}

void pool_release_settled(void) {
  for (struct line **link = &lines; *link;) {
    struct line *line = *link;
    release_passed(line);
    if (line->count) {
      link = &line->next;
      continue;
    }
    *link = line->next;
    free(line->entries);
    free(line);
  }
}

_Bool pool_waits(void) { return lines != NULL; }

void pool_forget_all(struct session *session) {
  for (struct line **link = &lines; *link;) {
    struct line *line = *link;
    if (line->session != session) {
      link = &line->next;
      continue;
    }
    *link = line->next;
    free(line->entries);
    free(line);
  }
  pool_empty_all(session);
}

// Takes memory that was freed on the stream and fits well, and returns its address, or 0.
static uint64_t use_again(struct session *session, uint64_t stream, uint64_t size, int device) {
  struct line *line = line_of(session, stream);
  if (!line) return 0;
  uint64_t wanted = memory_capacity(size);
  size_t last = line->first + line->count;
  for (size_t i = line->first; i < last && i < line->first + LOOKED_THROUGH; i++) {
    struct freed *freed = &line->entries[i];
    if (freed->device != device || freed->capacity < wanted) continue;
    if (freed->capacity - wanted > freed->capacity / 8) continue;
    uint64_t address = freed->address;
    // The few entries before it close the gap.
    memmove(&line->entries[line->first + 1], &line->entries[line->first],
            (i - line->first) * sizeof *freed);
    line->first++;
    line->count--;
    return address;
  }
  return 0;
}

static CUresult allocate(CUdeviceptr *out, uint64_t size, struct pool *pool, uint64_t handle,
                         uint64_t stream, uint64_t context) {
  if (!out || !size || pool->imported) return CUDA_ERROR_INVALID_VALUE;
  uint64_t address;
  CUresult result = CUDA_SUCCESS;
  if (capture_active()) {
    result = recorder->allocate(stream, pool->device, size, out);
    if (result != CAPTURE_NONE) return result;
    result = CUDA_SUCCESS;
  }
  // The pool may be of another device than the stream.
  struct session *session = session_of_device(pool->device);
  _Bool across = session != session_here();
  pthread_mutex_lock(&memory_lock);
  if (pool->most && (pool->used > pool->most || size > pool->most - pool->used)) {
    result = CUDA_ERROR_OUT_OF_MEMORY;
  } else if (!across && (address = use_again(session, stream, size, pool->device))) {
    memory_return(session, address, size, context, handle);
  } else {
    result = memory_allocate(session, size, pool->device, context, handle, &address);
    if (result == CUDA_ERROR_OUT_OF_MEMORY) {
      result = memory_make_room(session);
      if (!result) result = memory_allocate(session, size, pool->device, context, handle, &address);
      if (result == CUDA_ERROR_OUT_OF_MEMORY) memory_log_shortage(session, size);
    }
  }
  if (!result) {
    pool->used += size;
    if (pool->used > pool->high) pool->high = pool->used;
    *out = address;
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

static CUresult resolve(CUstream stream, int per_thread, uint64_t *wire, uint64_t *context) {
  CUcontext owner;
  CUresult result = stream_for_work(stream, per_thread, wire);
  if (!result) result = guest_cuStreamGetCtx(stream, &owner, per_thread);
  if (!result) *context = handle_of(owner);
  return result;
}

CUresult guest_cuMemAllocFromPoolAsync(CUdeviceptr *dptr, size_t bytesize, CUmemoryPool pool,
                                       CUstream hStream, int per_thread) {
  uint64_t stream, context;
  CUresult result = resolve(hStream, per_thread, &stream, &context);
  if (result) return result;
  struct session *session = session_here();
  struct pool *found = pool_find(pool);
  session_use(session);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  return allocate(dptr, bytesize, found, handle_of(pool), stream, context);
}

CUresult guest_cuMemAllocAsync(CUdeviceptr *dptr, size_t bytesize, CUstream hStream,
                               int per_thread) {
  uint64_t stream, context;
  CUresult result = resolve(hStream, per_thread, &stream, &context);
  if (result) return result;
  struct context *owner = handle_object(WIRE_KIND_CONTEXT, context);
  if (!owner) return CUDA_ERROR_INVALID_CONTEXT;
  CUmemoryPool pool;
  result = guest_cuDeviceGetMemPool(&pool, owner->device);
  if (result) return result;
  return allocate(dptr, bytesize, pool_find(pool), handle_of(pool), stream, context);
}

CUresult guest_cuMemFreeAsync(CUdeviceptr dptr, CUstream hStream, int per_thread) {
  uint64_t stream, context;
  CUresult result = resolve(hStream, per_thread, &stream, &context);
  if (result || !dptr) return result;
  if (capture_active()) {
    result = recorder->free(stream, dptr);
    if (result != CAPTURE_NONE) return result;
  }
  result = recorder->free_left(dptr);
  if (result != GRAPH_MEMORY_NONE) return result;
  struct allocation found;
  if (memory_find(dptr, &found)) {
    if (found.kind == ALLOCATION_MANAGED) return CUDA_ERROR_INVALID_VALUE;
    // To close such memory waits for the device.
    if (sharing_is_of_pool(&found)) return sharing_close(dptr, 1);
  }
  pthread_mutex_lock(&memory_lock);
  struct session *session = session_here();
  struct line *line = line_of(session, stream);
  if (!line) line = new_line(session, stream);
  struct freed freed = {.address = dptr, .device = 0};
  stream_position(session, stream, &freed.position);
  result = line ? append(line, &freed) : CUDA_ERROR_OUT_OF_MEMORY;
  if (!result) {
    struct freed *entry = &line->entries[line->first + line->count - 1];
    if (memory_find_locked(dptr, &found)) entry->device = found.device;
    result = memory_leave(dptr, &entry->capacity);
    if (result) line->count--;
  }
  pool_release_settled();
  pthread_mutex_unlock(&memory_lock);
  share_ends_await();
  return result;
}
