#include "streams/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "guest_calls.h"
#include "pages/pages.h"
#include "session/context.h"
#include "session/handle.h"
#include "session/lane.h"
#include "streams/event.h"
#include "wire/enter.h"

struct stream {
  unsigned flags;
  int priority;
  uint64_t id;
  uint64_t context;
  _Atomic uint64_t last;      // last command put on it
  _Atomic uint64_t done;      // commands up to here are known to be done
  uint64_t watch;             // request of a query that was answered "not ready", or 0
  uint64_t watch_last;        // `last` when it was asked
  _Atomic uint64_t finished;  // request of the latest query the server reported as done since
  struct stream_attributes *attributes;
};

// Guards `watch` and `watch_last`, which belong together.
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

// What is known of a lane's streams.
static struct order {
  struct stream legacy;
  _Atomic uint64_t blocking_last;     // last command on any created stream that legacy waits for
  _Atomic uint64_t nonblocking_last;  // last command on streams it does not wait for
  _Atomic uint64_t settled;           // commands up to here are done, on all streams
} orders[LANES_MAX];
static _Atomic uint64_t next_id = 1;

static struct order *here(void) { return &orders[lane_here()]; }

static struct stream *find(uint64_t wire) {
  if (wire == STREAM_LEGACY_WIRE) return &here()->legacy;
  return handle_object(WIRE_KIND_STREAM, wire);
}

static CUresult create(unsigned flags, int priority, uint64_t *wire) {
  struct stream *stream = calloc(1, sizeof *stream);
  if (!stream) return CUDA_ERROR_OUT_OF_MEMORY;
  stream->flags = flags;
  stream->priority = priority;
  stream->id = atomic_fetch_add(&next_id, 1);
  stream->context = context_current_handle();
  *wire = handle_mint(WIRE_KIND_STREAM, stream);
  if (!*wire) {
    free(stream);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return put_cuStreamCreateWithPriority(*wire, flags, priority);
}

CUresult stream_begin(uint64_t *wire) { return create(CU_STREAM_DEFAULT, 0, wire); }

CUresult stream_begin_apart(uint64_t *wire) { return create(CU_STREAM_NON_BLOCKING, 0, wire); }

CUresult stream_resolve(CUstream stream, int per_thread, uint64_t *wire) {
  uint64_t handle = handle_of(stream);
  if (handle == handle_of(CU_STREAM_PER_THREAD) || (handle == 0 && per_thread)) {
    return thread_stream_of_caller(wire);
  }
  if (handle == 0 || handle == handle_of(CU_STREAM_LEGACY)) {
    // That of the current context.
    if (lanes_many())
      lane_follow(lane_of_context(context_current_handle()), CUDA_ERROR_INVALID_HANDLE);
    *wire = STREAM_LEGACY_WIRE;
    return CUDA_SUCCESS;
  }
  *wire = handle;
  return handle_check(WIRE_KIND_STREAM, handle);
}

CUresult stream_for_work(CUstream stream, int per_thread, uint64_t *wire) {
  CUresult result = stream_resolve(stream, per_thread, wire);
  return !result && capture_active() ? capture_check_work(*wire) : result;
}

struct stream_attributes **stream_attributes(uint64_t wire) {
  return &find(wire)->attributes;
}

static void raise(_Atomic uint64_t *value, uint64_t to) {
  uint64_t now = atomic_load(value);
  while (now < to && !atomic_compare_exchange_weak(value, &now, to)) {
  }
}

void stream_mark(uint64_t wire, uint64_t sequence) {
  if (wire == BATCH_NO_STREAM) return;
  struct stream *stream = find(wire);
  if (!stream) return;
  atomic_store_explicit(&stream->last, sequence, memory_order_relaxed);
  struct order *order = here();
  if (stream == &order->legacy) return;
  atomic_store_explicit(
      stream->flags & CU_STREAM_NON_BLOCKING ? &order->nonblocking_last : &order->blocking_last,
      sequence, memory_order_relaxed);
}

static void mark_one(uint64_t handle, void *object, void *sequence) {
  (void)handle;
  raise(&((struct stream *)object)->last, *(uint64_t *)sequence);
}

void stream_mark_all(uint64_t sequence) {
  handle_each(WIRE_KIND_STREAM, mark_one, &sequence);
  raise(&here()->legacy.last, sequence);
  raise(&here()->blocking_last, sequence);
  raise(&here()->nonblocking_last, sequence);
}

static void raise_done(void *object, void *sequence) {
  raise(&((struct stream *)object)->done, *(uint64_t *)sequence);
}

void stream_settled(uint64_t wire, uint64_t sequence) {
  if (wire == STREAM_LEGACY_WIRE)
    raise(&here()->legacy.done, sequence);
  else
    handle_visit(WIRE_KIND_STREAM, wire, raise_done, &sequence);
}

void legacy_operation_settled(uint64_t sequence) {
  raise(&here()->legacy.done, sequence);
  // It waited for every blocking stream; if the others were done before, all is.
  if (atomic_load(&here()->nonblocking_last) <= context_settled_sequence())
    context_settled(sequence);
}

void context_settled(uint64_t sequence) { raise(&here()->settled, sequence); }
uint64_t context_settled_sequence(void) { return atomic_load(&here()->settled); }
_Bool context_is_settled(void) { return batch_sequence() <= atomic_load(&here()->settled); }

_Bool stream_is_settled(uint64_t wire) {
  struct stream *stream = find(wire);
  if (!stream) return 0;
  uint64_t last = atomic_load(&stream->last);
  // Synchronising the legacy stream covers the streams it waits for.
  struct order *order = here();
  if (stream == &order->legacy && atomic_load(&order->blocking_last) > last)
    last = atomic_load(&order->blocking_last);
  return last <= atomic_load(&stream->done) || last <= atomic_load(&order->settled);
}

uint64_t stream_last_sequence(uint64_t wire) {
  struct stream *stream = find(wire);
  return stream ? atomic_load(&stream->last) : 0;
}

static void read_done(void *object, void *done) {
  *(uint64_t *)done = atomic_load(&((struct stream *)object)->done);
}

// The stream may be destroyed at any time by another thread: events outlive their streams.
_Bool stream_has_done(uint64_t wire, uint64_t sequence) {
  if (sequence <= atomic_load(&here()->settled)) return 1;
  uint64_t done = 0;
  if (wire == STREAM_LEGACY_WIRE)
    done = atomic_load(&here()->legacy.done);
  else
    handle_visit(WIRE_KIND_STREAM, wire, read_done, &done);
  return sequence <= done;
}

void stream_position(uint64_t wire, struct stream_position *position) {
  struct stream *stream = find(wire);
  *position = (struct stream_position){0, 0};
  if (!stream) return;
  position->own = atomic_load(&stream->last);
  struct order *order = here();
  if (stream == &order->legacy && atomic_load(&order->blocking_last) > position->own)
    position->own = atomic_load(&order->blocking_last);
  if (stream != &order->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING))
    position->legacy = atomic_load(&order->legacy.last);
}

_Bool stream_has_passed(uint64_t wire, const struct stream_position *position) {
  return stream_has_done(wire, position->own) &&
         stream_has_done(STREAM_LEGACY_WIRE, position->legacy);
}

static CUresult destroy(uint64_t handle, _Bool tell) {
  struct stream *stream = handle_retire(WIRE_KIND_STREAM, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  free(stream->attributes);
  if (capture_active()) capture_stream_ends(handle);
  free(stream);
  CUresult result = tell ? put_cuStreamDestroy_v2(handle) : CUDA_SUCCESS;
  handle_recycle(WIRE_KIND_STREAM, handle);
  return result;
}

void stream_end(uint64_t wire) { destroy(wire, 1); }

uint64_t stream_context(uint64_t wire) {
  struct stream *stream = find(wire);
  return stream && stream != &here()->legacy ? stream->context : context_current_handle();
}

static void forget(uint64_t handle, void *object, void *context) {
  uint64_t only = context ? *(uint64_t *)context : 0;
  struct stream *stream = object;
  if (!only || stream->context == only) destroy(handle, only != 0);
}

void stream_forget_all(void) { handle_each(WIRE_KIND_STREAM, forget, NULL); }
void stream_destroy_of(uint64_t context) { handle_each(WIRE_KIND_STREAM, forget, &context); }

CUresult context_synchronize(void) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_cuCtxSynchronize(&answer);
  answer_free(&answer);
  if (!result) context_settled(answer.sequence);
  return result;
}

static void await(uint64_t handle, void *object, void *context) {
  if (((struct stream *)object)->context != *(uint64_t *)context) return;
  const CUresult result = stream_synchronize(handle);
  if (result) guest_async_error(result);
}

void stream_synchronize_of(uint64_t context) {
  handle_each(WIRE_KIND_STREAM, await, &context);
  // The server's one default stream stands for that of every context.
  const CUresult result = stream_synchronize(STREAM_LEGACY_WIRE);
  if (result) guest_async_error(result);
}

CUresult lane_synchronize(unsigned lane) {
  struct lane_thread before = lane_enter(lane);
  CUresult result = context_is_settled() ? CUDA_SUCCESS : context_synchronize();
  lane_leave(before);
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
  if (!phStream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  uint64_t wire;
  CUresult result = create(flags, device_clamp_priority(priority), &wire);
  if (!result) *phStream = (CUstream)(uintptr_t)wire;
  return result;
}

CUresult guest_cuStreamCreate(CUstream *phStream, unsigned int Flags) {
  return guest_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult guest_cuStreamDestroy_v2(CUstream hStream) { return destroy(handle_of(hStream), 1); }

CUresult guest_cuStreamDestroy(CUstream hStream) { return guest_cuStreamDestroy_v2(hStream); }

CUresult stream_synchronize(uint64_t wire) {
  CUresult result;
  pages_will_wait();
  if (stream_is_settled(wire)) {
    result = guest_take_async_error();
  } else {
    struct answer answer;
    answer_init(&answer);
    result = ask_cuStreamSynchronize(wire, &answer);
    answer_free(&answer);
    if (!result) stream_settled(wire, answer.sequence);
  }
  pages_have_waited();
  return result;
}

CUresult guest_cuStreamSynchronize(CUstream hStream, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (capture_active() && (result = capture_check_wait(wire))) return result;
  return stream_synchronize(wire);
}

static CUresult query(uint64_t wire) {
  if (stream_is_settled(wire)) return guest_take_async_error();
  struct stream *stream = find(wire);
  uint64_t last = atomic_load(&stream->last);
  pthread_mutex_lock(&watch_lock);
  uint64_t watch = stream->watch_last == last ? stream->watch : 0;
  pthread_mutex_unlock(&watch_lock);
  if (watch) {
    // The server tells when it is done: no need to ask again.
    answer_poll();
    if (atomic_load(&stream->finished) < watch) return CUDA_ERROR_NOT_READY;
    raise(&stream->done, last);
    return guest_take_async_error();
  }
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_cuStreamQuery(wire, &answer);
  answer_free(&answer);
  if (!result) raise(&stream->done, last);
  pthread_mutex_lock(&watch_lock);
  stream->watch = result == CUDA_ERROR_NOT_READY ? answer.request : 0;
  stream->watch_last = last;
  pthread_mutex_unlock(&watch_lock);
  return result;
}

CUresult guest_cuStreamQuery(CUstream hStream, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (capture_active() && (result = capture_check_wait(wire))) return result;
  result = query(wire);
  if (result != CUDA_ERROR_NOT_READY) pages_have_waited();
  return result;
}

static void raise_finished(void *object, void *request) {
  raise(&((struct stream *)object)->finished, *(uint64_t *)request);
}

void stream_finished(const struct wire_done *done) {
  uint64_t request = done->request;
  if (done->handle == STREAM_LEGACY_WIRE)
    raise(&here()->legacy.finished, request);
  else
    handle_visit(WIRE_KIND_STREAM, done->handle, raise_finished, &request);
}

CUresult guest_cuStreamGetFlags(CUstream hStream, unsigned int *flags, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = find(wire)->flags;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamGetPriority(CUstream hStream, int *priority, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = find(wire)->priority;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamGetId(CUstream hStream, unsigned long long *streamId, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (!streamId) return CUDA_ERROR_INVALID_VALUE;
  // Every context has a default stream of its own. No session comes to so many created ones.
  const struct stream *stream = find(wire);
  *streamId = stream == &here()->legacy ? context_current()->id << 32 : stream->id;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamGetCtx(CUstream hStream, CUcontext *pctx, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  struct stream *stream = find(wire);
  uint64_t context = stream == &here()->legacy ? context_current_handle() : stream->context;
  *pctx = (CUcontext)(uintptr_t)context;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamGetCtx_v2(CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx,
                                 int per_thread) {
  CUresult result = guest_cuStreamGetCtx(hStream, pCtx, per_thread);
  if (!result && pGreenCtx) *pGreenCtx = NULL;
  return result;
}

// There are no green contexts, so no stream is of one.
CUresult guest_cuStreamGetGreenCtx(CUstream hStream, CUgreenCtx *phCtx) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, 0, &wire);
  if (result) return result;
  if (!phCtx) return CUDA_ERROR_INVALID_VALUE;
  *phCtx = NULL;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamGetDevice(CUstream hStream, CUdevice *device, int per_thread) {
  CUcontext context;
  CUresult result = guest_cuStreamGetCtx(hStream, &context, per_thread);
  if (result) return result;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  struct context *found = handle_object(WIRE_KIND_CONTEXT, handle_of(context));
  if (!found) return CUDA_ERROR_INVALID_CONTEXT;
  *device = found->device;
  return CUDA_SUCCESS;
}
