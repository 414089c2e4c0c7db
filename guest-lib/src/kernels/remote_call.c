#include "kernels/remote_call.h"

#include <string.h>

#include "base/ablation.h"
#include "base/watch.h"
#include "guest_calls.h"
#include "kernels/library.h"
#include "library_call.h"
#include "memory/host_memory.h"
#include "session/context.h"
#include "session/handle.h"
#include "session/session.h"
#include "streams/recorder.h"
#include "streams/stream.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/echo.h"
#include "wire/enter.h"
#include "wire/order.h"

CUresult remote_enter(void) {
  if (sessions_many()) session_begin_call();
  if (atomic_load_explicit(&guest_obstacles, memory_order_acquire)) {
    CUresult result = guest_check(NEEDS_CONTEXT);
    if (result) return result;
  }
  return context_current() ? CUDA_SUCCESS : context_unusable();
}

CUresult remote_begin(uint64_t *handle, uint32_t *version) {
  // All that is known of a handle here is whose it is.
  static char behind;
  CUresult result = remote_enter();
  if (result) return result;
  struct session *session = session_here();
  if (!session->cublas) return CUDA_ERROR_NOT_SUPPORTED;
  *version = session->cublas;
  *handle = handle_mint(session, WIRE_KIND_LIBRARY, &behind);
  return *handle ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

void remote_end(uint64_t handle) {
  if (handle_retire(WIRE_KIND_LIBRARY, handle)) handle_recycle(WIRE_KIND_LIBRARY, handle);
}

static CUresult ask(struct session *session, const struct remote_call *call, uint64_t stream,
                    struct answer *answer) {
  struct wire_LibraryAsk *frame = batch_ask(
      session, WIRE_LibraryAsk, sizeof(struct wire_LibraryAsk) + wire_round_up(call->size), answer);
  if (!frame) return guest_lost();
  frame->library = call->library;
  frame->function = call->function;
  frame->handle = call->handle;
  frame->stream = stream;
  frame->key = call->key;
  frame->mode = call->mode;
  frame->arguments_size = call->size;
  batch_blob((unsigned char *)(frame + 1), call->arguments, call->size);
  batch_leave(session, stream);
  return CUDA_SUCCESS;
}

static CUresult collect(struct session *session, struct answer *asked,
                        struct remote_answer *answer) {
  CUresult result = batch_collect(session, asked, sizeof(struct wire_LibraryAsk_reply));
  if (!result) {
    const struct wire_LibraryAsk_reply *reply = asked->reply;
    const uint32_t room = reply->reply.header.size - (uint32_t)sizeof *reply;
    answer->status = reply->status;
    answer->size = reply->results_size;
    if (answer->size > sizeof answer->results || answer->size > room)
      result = CUDA_ERROR_DEVICE_UNAVAILABLE;
    else
      memcpy(answer->results, reply + 1, answer->size);
  }
  answer_free(asked);
  return result;
}

static CUresult make(const struct remote_call *call, struct remote_answer *answer) {
  CUresult result = remote_enter();
  if (result) return result;
  uint64_t stream;
  if (call->size > REMOTE_ARGUMENTS_MAX) return CUDA_ERROR_INVALID_VALUE;
  if (call->library != LIBRARY_CUBLASLT) result = handle_check(WIRE_KIND_LIBRARY, call->handle);
  if (!result) result = stream_for_work(call->stream, 0, &stream);
  // The stream and the handle must be of one device.
  if (!result) result = session_mixed_error();
  if (!result && capture_active()) {
    result = recorder->look(stream);
    // What it would put there is not known here, so it cannot become a node.
    result = result == CAPTURE_NONE ? CUDA_SUCCESS : CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  // Pinned and managed memory that it names, as a launch does.
  if (!result) result = host_share_named(call->arguments, call->size);
  if (result) return stream_leave_room(result);
  struct session *session = session_here();
  struct answer asked;
  answer_init(&asked);
  const _Bool handed_over = pages_hand_over(session);
  result = answer ? ask(session, call, stream, &asked)
                  : put_LibraryCall(session, call->library, call->function, call->handle, stream,
                                    call->mode, call->arguments, call->size);
  if (handed_over) pages_handed_over();
  if (result) return stream_leave_room(result);
  if (answer) return collect(session, &asked, answer);
  if (ablated(ABLATE_POSTED)) echo_ask(session);
  return CUDA_SUCCESS;
}

CUresult remote_call(const struct remote_call *call, struct remote_answer *answer) {
  // It is none of the driver's.
  stats_add(&guest_stats->by_call[CALL_LIBRARY], 1);
  if (!watch_on()) return make(call, answer);
  struct watched watched;
  watch_begin(&watched, CALL_LIBRARY);
  return watch_end(&watched, make(call, answer));
}
