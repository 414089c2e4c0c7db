#include "streams/stream.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "guest_calls.h"
#include "pages/merged.h"
#include "session/context.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/internal.h"
#include "streams/recorder.h"
#include "streams/room.h"
#include "wire/answer.h"
#include "wire/enter.h"
#include "wire/order.h"

struct stream {
  struct stream_order order;  // first: by that, the stream is found by whoever sends
  int priority;
  uint64_t id;
  uint64_t context;
  uint64_t watch;       // request of a query that was answered "not ready", or 0
  uint64_t watch_last;  // the last command on it when it was asked
  struct stream_attributes *attributes;
};

// Guards `watch` and `watch_last`, which belong together.
static pthread_mutex_t watch_lock = PTHREAD_MUTEX_INITIALIZER;

static _Atomic uint64_t next_id = 1;

// The legacy default stream is no handle's, and its order is kept apart (wire/order.h).
_Bool stream_make(struct session *session) { return session_part(session->legacy_stream); }

static struct stream *find(struct session *session, uint64_t wire) {
  if (wire == STREAM_LEGACY_WIRE) return session->legacy_stream;
  return handle_peek(WIRE_KIND_STREAM, wire);
}

static CUresult create(struct session *session, unsigned flags, int priority, uint64_t *wire) {
  struct stream *stream = calloc(1, sizeof *stream);
  if (!stream) return CUDA_ERROR_OUT_OF_MEMORY;
  stream->order.flags = flags;
  stream->priority = priority;
  stream->id = atomic_fetch_add(&next_id, 1);
  stream->context = context_current_handle();
  *wire = handle_mint(session, WIRE_KIND_STREAM, stream);
  if (!*wire) {
    free(stream);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return put_cuStreamCreateWithPriority(session, *wire, flags, priority);
}

CUresult stream_begin(struct session *session, uint64_t *wire) {
  return create(session, CU_STREAM_DEFAULT, 0, wire);
}

CUresult stream_begin_apart(struct session *session, uint64_t *wire) {
  return create(session, CU_STREAM_NON_BLOCKING, 0, wire);
}

static CUresult check(uint64_t handle) {
  const struct stream *stream = handle_object(WIRE_KIND_STREAM, handle);
  return stream && !guest_context_is_gone(stream->context) ? CUDA_SUCCESS
                                                           : CUDA_ERROR_INVALID_HANDLE;
}

CUresult stream_resolve(CUstream stream, int per_thread, uint64_t *wire) {
  uint64_t handle = handle_of(stream);
  if (handle == handle_of(CU_STREAM_PER_THREAD) || (handle == 0 && per_thread)) {
    return thread_stream_of_caller(wire);
  }
  if (handle == 0 || handle == handle_of(CU_STREAM_LEGACY)) {
    // That of the current context.
    if (sessions_many())
      session_follow(session_of_context(context_current_handle()), CUDA_ERROR_INVALID_HANDLE);
    *wire = STREAM_LEGACY_WIRE;
    return CUDA_SUCCESS;
  }
  *wire = handle;
  return check(handle);
}

CUresult stream_for_work(CUstream stream, int per_thread, uint64_t *wire) {
  CUresult result = stream_resolve(stream, per_thread, wire);
  if (!result && capture_active()) result = recorder->check_work(*wire);
  return result ? result : stream_await_room(session_here(), *wire);
}

struct stream_attributes **stream_attributes(uint64_t wire) {
  return &find(session_here(), wire)->attributes;
}

static CUresult destroy(uint64_t handle, _Bool tell) {
  struct stream *stream = handle_retire(WIRE_KIND_STREAM, handle);
  if (!stream) return CUDA_ERROR_INVALID_HANDLE;
  free(stream->attributes);
  if (capture_active()) recorder->stream_ends(handle);
  free(stream);
  CUresult result = tell ? put_cuStreamDestroy_v2(session_here(), handle) : CUDA_SUCCESS;
  handle_recycle(WIRE_KIND_STREAM, handle);
  return result;
}

void stream_end(uint64_t wire) { destroy(wire, 1); }

uint64_t stream_context(uint64_t wire) {
  struct session *session = session_here();
  struct stream *stream = find(session, wire);
  return stream && stream != session->legacy_stream ? stream->context : context_current_handle();
}

static void forget(uint64_t handle, void *object, void *context) {
  uint64_t only = context ? *(uint64_t *)context : 0;
  struct stream *stream = object;
  if (!only || stream->context == only) destroy(handle, only != 0);
}

void stream_forget_all(struct session *session) {
  handle_each(session, WIRE_KIND_STREAM, forget, NULL);
}
void stream_destroy_of(struct session *session, uint64_t context) {
  handle_each(session, WIRE_KIND_STREAM, forget, &context);
}

// Waits for a stream, and keeps an error of its work.
static void await(struct session *session, uint64_t wire) {
  const CUresult result = stream_synchronize(session, wire);
  if (result) guest_async_error(session, result);
}

struct ending {
  struct session *session;
  uint64_t context;
};
static void await_of(uint64_t handle, void *object, void *ending) {
  const struct ending *of = ending;
  if (((struct stream *)object)->context == of->context) await(of->session, handle);
}

void stream_synchronize_of(struct session *session, uint64_t context) {
  struct ending ending = {session, context};
  handle_each(session, WIRE_KIND_STREAM, await_of, &ending);
  // The server's one default stream stands for that of every context.
  await(session, STREAM_LEGACY_WIRE);
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority) {
  if (!phStream || flags & ~(unsigned)CU_STREAM_NON_BLOCKING) return CUDA_ERROR_INVALID_VALUE;
  uint64_t wire;
  CUresult result = create(session_here(), flags, device_clamp_priority(priority), &wire);
  if (!result) *phStream = (CUstream)(uintptr_t)wire;
  return result;
}

CUresult guest_cuStreamCreate(CUstream *phStream, unsigned int Flags) {
  return guest_cuStreamCreateWithPriority(phStream, Flags, 0);
}

CUresult guest_cuStreamDestroy_v2(CUstream hStream) {
  const CUresult result = check(handle_of(hStream));
  return result ? result : destroy(handle_of(hStream), 1);
}

CUresult guest_cuStreamDestroy(CUstream hStream) { return guest_cuStreamDestroy_v2(hStream); }

CUresult stream_synchronize(struct session *session, uint64_t wire) {
  CUresult result;
  pages_will_wait(session);
  if (stream_is_settled(session, wire)) {
    result = guest_take_async_error(session);
  } else {
    struct answer answer;
    answer_init(&answer);
    result = ask_cuStreamSynchronize(session, wire, &answer);
    answer_free(&answer);
    if (!result) stream_settled(session, wire, answer.sequence);
  }
  pages_have_waited(session);
  return result;
}

CUresult guest_cuStreamSynchronize(CUstream hStream, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (capture_active() && (result = recorder->check_wait(wire))) return result;
  return stream_synchronize(session_here(), wire);
}

static CUresult query(uint64_t wire) {
  if (stream_is_settled(session_here(), wire)) return guest_take_async_error(session_here());
  struct stream *stream = find(session_here(), wire);
  const uint64_t last = stream_last_sequence(session_here(), wire);
  pthread_mutex_lock(&watch_lock);
  uint64_t watch = stream->watch_last == last ? stream->watch : 0;
  pthread_mutex_unlock(&watch_lock);
  if (watch) {
    // The server tells when it is done: no need to ask again.
    answer_poll(session_here());
    if (stream_last_finished(session_here(), wire) < watch) return CUDA_ERROR_NOT_READY;
    stream_settled(session_here(), wire, last);
    return guest_take_async_error(session_here());
  }
  if (!room_for_query(session_here(), wire)) return CUDA_ERROR_NOT_READY;
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_cuStreamQuery(session_here(), wire, &answer);
  answer_free(&answer);
  // The server has put an event there, to tell when it is done.
  if (result == CUDA_ERROR_NOT_READY) stream_room_used();
  if (!result) stream_settled(session_here(), wire, last);
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
  if (capture_active() && (result = recorder->check_wait(wire))) return result;
  result = query(wire);
  if (result != CUDA_ERROR_NOT_READY) pages_have_waited(session_here());
  return result;
}

CUresult guest_cuStreamGetFlags(CUstream hStream, unsigned int *flags, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  *flags = find(session_here(), wire)->order.flags;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamGetPriority(CUstream hStream, int *priority, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (!priority) return CUDA_ERROR_INVALID_VALUE;
  *priority = find(session_here(), wire)->priority;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamGetId(CUstream hStream, unsigned long long *streamId, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (!streamId) return CUDA_ERROR_INVALID_VALUE;
  // Every context has a default stream of its own. No session comes to so many created ones.
  const struct stream *stream = find(session_here(), wire);
  *streamId = stream == session_here()->legacy_stream ? context_current()->id << 32 : stream->id;
  return CUDA_SUCCESS;
}

CUresult guest_cuStreamGetCtx(CUstream hStream, CUcontext *pctx, int per_thread) {
  uint64_t wire;
  CUresult result = stream_resolve(hStream, per_thread, &wire);
  if (result) return result;
  if (!pctx) return CUDA_ERROR_INVALID_VALUE;
  struct session *session = session_here();
  struct stream *stream = find(session, wire);
  uint64_t context = stream == session->legacy_stream ? context_current_handle() : stream->context;
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
