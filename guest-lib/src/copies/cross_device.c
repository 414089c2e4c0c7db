#include "copies/cross_device.h"

#include <stdlib.h>

#include "copies/resolve.h"
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "memory/memory_range.h"
#include "session/handle.h"
#include "streams/host_function.h"
#include "streams/recorder.h"
#include "streams/stream.h"
#include "wire/enter.h"
#include "wire/order.h"

// So much is on its way through this process at once.
#define PIECE_BYTES (4u << 20)

// ---- copies ------------------------------------------------------------------------------------

// The same memory of the host's for the length of a copy: rows without gaps.
static struct box_end stage_at(const void *memory, const struct box *box) {
  return (struct box_end){.place = BOX_HOST,
                          .address = (uint64_t)(uintptr_t)memory,
                          .pitch = box->width,
                          .rows = box->height};
}

// One way, in the session of the end that is a device's; the other end is the host's. What goes up
// has been read when this returns, what comes down is there.
static CUresult move(const struct box_end *to, const struct box_end *from, const struct box *box,
                     struct session *session, uint64_t stream, _Bool up) {
  struct copy copy = {
      .to = *to, .from = *from, .box = *box, .stream = stream, .async = up, .in_turn = 1};
  struct thread_session before = session_switch(session);
  CUresult result = copy_make(&copy);
  session_back(before);
  return result;
}

static CUresult move_piece(const struct copy *copy, const struct box_piece *piece, char *through,
                           const uint64_t streams[SESSIONS_MAX]) {
  const struct box_end stage = stage_at(through, &piece->box);
  const struct box_end to = box_end_at(&copy->to, piece), from = box_end_at(&copy->from, piece);
  struct session *const into = copy->to_session, *const out_of = copy->from_session;
  if (!out_of) return move(&to, &from, &piece->box, into, streams[into->number], 1);
  if (!into) return move(&to, &from, &piece->box, out_of, streams[out_of->number], 0);
  CUresult result = move(&stage, &from, &piece->box, out_of, streams[out_of->number], 0);
  return result ? result : move(&to, &stage, &piece->box, into, streams[into->number], 1);
}

// By one device, which reaches both.
static CUresult copy_by(const struct copy *copy, uint64_t stream) {
  struct copy here = {.to = copy->to, .from = copy->from, .box = copy->box, .stream = stream};
  struct thread_session before = session_switch(copy->by);
  CUresult result = copy_locate(&here);
  if (!result) result = copy_route(&here);
  if (!result) result = stream_synchronize(copy->by, stream);
  session_back(before);
  return result;
}

// All of it, on these streams of the sessions. When it returns, all is where it goes.
static CUresult carry(const struct copy *copy, const uint64_t streams[SESSIONS_MAX]) {
  if (copy->by) return copy_by(copy, streams[copy->by->number]);
  char *through = malloc(copy->bytes < PIECE_BYTES ? copy->bytes : PIECE_BYTES);
  CUresult result = through ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  struct box_piece piece = {0};
  while (!result && piece.z < copy->box.depth) {
    box_piece_shape(&piece, &copy->box, PIECE_BYTES, 1, 1);
    result = move_piece(copy, &piece, through, streams);
    box_piece_next(&piece, &copy->box);
  }
  if (!result && copy->to_session) {
    struct session *into = copy->to_session;
    result = stream_synchronize(into, streams[into->number]);
  }
  free(through);
  return result;
}

// A stream of a session that nothing of the program's is on, and that waits for nothing: the steps
// of streams copy there. Only the thread that takes them asks.
static CUresult own_stream(struct session *session, uint64_t streams[SESSIONS_MAX]) {
  CUresult result = CUDA_SUCCESS;
  if (!session) return result;
  uint64_t *own = &session->crossing_stream;
  // A reset of the context ends it like any other.
  if (!handle_is_live(WIRE_KIND_STREAM, *own)) result = stream_begin_apart(session, own);
  streams[session->number] = *own;
  return result;
}

static void carry_step(void *data, struct host_step_call call) {
  struct copy *copy = data;
  uint64_t streams[SESSIONS_MAX] = {0};
  CUresult result = own_stream(!copy->by ? copy->from_session : copy->by, streams);
  if (!result && !copy->by) result = own_stream(copy->to_session, streams);
  if (!result) result = carry(copy, streams);
  if (result && !guest_is_lost()) guest_async_error(call.session, result);
  free(copy);
  host_step_done(call);
}

// Whether an end and what the host has at it may be copied to or from in its session.
static CUresult check_end(const struct box_end *end, struct session *session,
                          const struct box *box) {
  if (!session) return CUDA_SUCCESS;
  struct copy alone = {.to = *end, .from = stage_at(&alone, box), .box = *box};
  struct thread_session before = session_switch(session);
  CUresult result = copy_locate(&alone);
  session_back(before);
  return result;
}

// Whether the host's memory at an end cannot be copied by a step. The program may change pageable
// memory as soon as the call returns, or means to read it. Pinned memory that a device reaches may
// have to come from there first, which waits for that device's streams, and one of them would wait
// for the step.
static _Bool is_for_the_caller(const struct box_end *end, const struct session *session) {
  const void *pointer = box_pointer(end);
  return !session && (!host_is_pinned(pointer, 1) || memory_is_shared(host_on_device(pointer)));
}

static CUresult carry_later(const struct copy *copy) {
  struct copy *later = malloc(sizeof *later);
  if (!later) return CUDA_ERROR_OUT_OF_MEMORY;
  *later = *copy;
  CUresult result = host_step(copy->session, copy->stream, carry_step, later);
  if (result) free(later);
  return result;
}

CUresult cross_device_copy(const struct copy *copy) {
  CUresult result = check_end(&copy->to, copy->to_session, &copy->box);
  if (!result) result = check_end(&copy->from, copy->from_session, &copy->box);
  if (result) return result;
  // On the legacy stream it begins when all work of both devices is done, and theirs goes on after
  // it.
  const _Bool legacy = copy->stream == STREAM_LEGACY_WIRE;
  if (copy->async && !legacy && !is_for_the_caller(&copy->to, copy->to_session) &&
      !is_for_the_caller(&copy->from, copy->from_session))
    return carry_later(copy);
  result = stream_synchronize(copy->session, copy->stream);
  // What is waited for is behind the work of both devices, too.
  struct session *const sessions[2] = {copy->from_session, copy->to_session};
  for (int i = 0; i < 2 && !result; i++)
    if ((!copy->async || legacy) && sessions[i]) result = session_synchronize(sessions[i]);
  const uint64_t streams[SESSIONS_MAX] = {STREAM_LEGACY_WIRE};
  return result ? result : carry(copy, streams);
}

// ---- fills -------------------------------------------------------------------------------------

CUresult cross_device_fill(uint64_t address, uint64_t *stream, _Bool *away) {
  const struct box_end end = {.place = BOX_DEVICE, .address = address};
  struct session *session = holder_of(&end);
  struct session *here = session_here();
  if (!session || holder_lends(session, &end, here)) return CUDA_SUCCESS;
  // In a graph that is captured it is a node, as in a stream of the memory's own device.
  CUresult result = capture_active() ? recorder->look(*stream) : CAPTURE_NONE;
  if (result != CAPTURE_NONE) return result;
  if ((result = stream_synchronize(here, *stream))) return result;
  *away = 1;
  session_use(session);
  *stream = STREAM_LEGACY_WIRE;
  return CUDA_SUCCESS;
}

CUresult cross_device_filled(CUresult result) {
  return result ? result : stream_synchronize(session_here(), STREAM_LEGACY_WIRE);
}
