// Entry points: what contexts do with all that is theirs: its end, its limits, waiting for it.
#include <pthread.h>
#include <stdatomic.h>

#include "arrays/array.h"
#include "arrays/texture.h"
#include "guest_calls.h"
#include "kernels/module.h"
#include "kernels/reference.h"
#include "memory/limit.h"
#include "memory/memory.h"
#include "memory/peer.h"
#include "pages/merged.h"
#include "session/context.h"
#include "session/device.h"
#include "session/handle.h"
#include "session/session.h"
#include "setup/log.h"
#include "streams/event.h"
#include "streams/recorder.h"
#include "streams/stream.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"
#include "wire/order.h"

CUresult guest_cuCtxDestroy_v2(CUcontext ctx) {
  struct context *context = context_find(ctx);
  if (!context) return CUDA_ERROR_INVALID_CONTEXT;
  if (context->primary) return CUDA_ERROR_INVALID_CONTEXT;
  uint64_t handle = handle_of(ctx);
  struct session *session = session_of_device(context->device);
  session_use(session);
  // What its kernels print is shown before it ends.
  if (!context_is_settled(session) && !capture_active()) stream_synchronize_of(session, handle);
  module_destroy_of(session, handle);
  stream_destroy_of(session, handle);
  event_destroy_of(session, handle);
  texture_destroy_of(session, handle);
  reference_destroy_of(session, handle);
  array_destroy_of(session, handle);
  memory_destroy_of(session, handle);
  peer_forget_context(handle);
  context_drop(handle);
  return CUDA_SUCCESS;
}

CUresult guest_cuCtxDestroy(CUcontext ctx) { return guest_cuCtxDestroy_v2(ctx); }

CUresult guest_cuCtxDetach(CUcontext ctx) {
  struct context *context = context_find(ctx);
  if (!context || context->primary || context_current_handle() != handle_of(ctx))
    return CUDA_ERROR_INVALID_CONTEXT;
  return atomic_fetch_sub(&context->attached, 1) == 1 ? guest_cuCtxDestroy_v2(ctx) : CUDA_SUCCESS;
}

static CUresult set_limit(struct session *session, int device, CUlimit limit, size_t value) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_LimitSet(session, limit, value, &answer);
  // Drivers round some of them.
  if (!result)
    device_set_limit(device, limit, ((const struct wire_LimitSet_reply *)answer.reply)->value);
  answer_free(&answer);
  return result;
}

CUresult guest_cuCtxSetLimit(CUlimit limit, size_t value) {
  struct context *context = context_current();
  if (!context) return context_missing(NULL);
  if ((unsigned)limit >= CU_LIMIT_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (limit >= CU_LIMIT_CIG_ENABLED) return CUDA_ERROR_UNSUPPORTED_LIMIT;  // nobody draws here
  size_t before;
  CUresult result = device_limit(context->device, limit, &before);
  if (result || before == value) return result;
  static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&one_at_a_time);
  // Counted here as on the server, or what is called free could not be had.
  struct session *session = session_here();
  result = memory_raise(session, device_raised(context->device, limit, value));
  if (!result) result = set_limit(session, context->device, limit, value);
  if (!guest_is_lost() && device_limit(context->device, limit, &before) == CUDA_SUCCESS)
    memory_raise(session, device_raised(context->device, limit, before));
  pthread_mutex_unlock(&one_at_a_time);
  return result;
}

// A server's one context stands for all of the program's on its device, so these cover the streams
// of all. A server's driver may be older than they are; look-ups do not find them then, but a
// runtime that was there before the server was known has them.
enum { CAME_WITH_12_5 = 12050 };

static CUresult events_of_all(const char *call) {
  if (device_server_version() >= CAME_WITH_12_5) return CUDA_SUCCESS;
  static _Atomic _Bool said;
  if (!atomic_exchange(&said, 1))
    log_warn("%s came with CUDA 12.5, and the server's driver is older (said once)", call);
  return CUDA_ERROR_NOT_SUPPORTED;
}

CUresult guest_cuCtxRecordEvent(CUcontext hCtx, CUevent hEvent) {
  const struct context *context = context_given(hCtx);
  if (!context) return context_missing(hCtx);
  CUresult missing = events_of_all("cuCtxRecordEvent");
  if (missing) return missing;
  session_follow(session_of_device(context->device), CUDA_ERROR_INVALID_CONTEXT);
  return event_record_all(hEvent, hCtx ? handle_of(hCtx) : context_current_handle());
}

CUresult guest_cuCtxWaitEvent(CUcontext hCtx, CUevent hEvent) {
  const struct context *context = context_given(hCtx);
  if (!context) return context_missing(hCtx);
  CUresult missing = events_of_all("cuCtxWaitEvent");
  if (missing) return missing;
  session_follow(session_of_device(context->device), CUDA_ERROR_INVALID_CONTEXT);
  if (handle_check(WIRE_KIND_EVENT, handle_of(hEvent))) return CUDA_ERROR_INVALID_HANDLE;
  struct session *session = session_here();
  CUresult result = put_ContextWait(session, handle_of(hEvent));
  stream_mark_all(session, batch_sequence(session));
  return result;
}

CUresult guest_cuCtxSynchronize_v2(CUcontext ctx) {
  const struct context *context = context_given(ctx);
  if (!context) return context_missing(ctx);
  struct session *session = session_of_device(context->device);
  session_use(session);
  if (guest_obstacles) {
    // The family needs no context, so a poisoned one has to be noticed here.
    CUresult result =
        context->inactive ? CUDA_ERROR_CONTEXT_IS_DESTROYED : guest_check(NEEDS_OBJECT);
    if (result) return result;
  }
  if (capture_active()) {
    CUresult result = recorder->check_context_wait();
    if (result) return result;
  }
  pages_will_wait(session);
  CUresult result =
      context_is_settled(session) ? guest_take_async_error(session) : context_synchronize(session);
  pages_have_waited(session);
  return result;
}

CUresult guest_cuCtxSynchronize(void) { return guest_cuCtxSynchronize_v2(NULL); }
