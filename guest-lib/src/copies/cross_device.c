#include "copies/cross_device.h"

#include <stdlib.h>

#include "guest_calls.h"
#include "memory/host_memory.h"
#include "memory/memory.h"
#include "memory/memory_range.h"
#include "memory/window.h"
#include "session/handle.h"
#include "streams/host_function.h"
#include "streams/recorder.h"
#include "streams/stream.h"
#include "wire/enter.h"
#include "wire/order.h"

// So much is on its way through this process at once.
#define PIECE_BYTES (4u << 20)

// ---- copies ------------------------------------------------------------------------------------

struct crossing {
  struct box_end to, from;
  unsigned to_session, from_session;  // SESSION_ANY: the host
  struct box box;
  unsigned by;  // the session whose device reaches both ends; SESSION_ANY: none does
};

unsigned copy_end_session(const struct box_end *end) {
  if (end->place == BOX_ARRAY) return handle_session(WIRE_KIND_ARRAY, end->array);
  struct allocation found;
  if (end->place == BOX_HOST || window_is_host(end->address)) return SESSION_ANY;
  return memory_find(end->address, &found) ? found.session : SESSION_ANY;
}

static _Bool reaches(unsigned session, const struct box_end *end, unsigned end_session) {
  struct allocation found;
  if (session == end_session) return 1;
  return end->place != BOX_ARRAY && memory_find(end->address, &found) &&
         sessions_have(found.visitors, session);
}

static unsigned session_of_copy(const struct crossing *c, unsigned here) {
  const unsigned sessions[3] = {here, c->to_session, c->from_session};
  if (c->to_session == SESSION_ANY || c->from_session == SESSION_ANY) return SESSION_ANY;
  for (int i = 0; i < 3; i++)
    if (reaches(sessions[i], &c->to, c->to_session) &&
        reaches(sessions[i], &c->from, c->from_session))
      return sessions[i];
  return SESSION_ANY;
}

// One way, in the session of the end that is a device's; `host` has it in rows without gaps.
static CUresult move(const struct box_end *device, unsigned session, struct box_end host,
                     const struct box *box, uint64_t stream, _Bool up) {
  struct box_end end = *device;
  struct thread_session before = session_switch(session);
  CUresult result =
      up ? box_copy(&end, &host, box, stream, 1) : box_copy(&host, &end, box, stream, 0);
  session_back(before);
  return result;
}

static CUresult move_piece(const struct crossing *c, const struct box_piece *piece, char *through,
                           const uint64_t streams[SESSIONS_MAX]) {
  const struct box_end stage = {.place = BOX_HOST,
                                .address = (uint64_t)(uintptr_t)through,
                                .pitch = piece->box.width,
                                .rows = piece->box.height};
  struct box_end to = box_end_at(&c->to, piece), from = box_end_at(&c->from, piece);
  if (c->from_session == SESSION_ANY)
    return move(&to, c->to_session, from, &piece->box, streams[c->to_session], 1);
  if (c->to_session == SESSION_ANY)
    return move(&from, c->from_session, to, &piece->box, streams[c->from_session], 0);
  CUresult result = move(&from, c->from_session, stage, &piece->box, streams[c->from_session], 0);
  return result ? result : move(&to, c->to_session, stage, &piece->box, streams[c->to_session], 1);
}

// By one device, which reaches both.
static CUresult copy_by(const struct crossing *c, uint64_t stream) {
  struct box_end to = c->to, from = c->from;
  struct thread_session before = session_switch(c->by);
  CUresult result = box_locate(&to, &from, &c->box);
  if (!result) result = box_move(&to, &from, &c->box, stream, LANDING_WAITED_FOR);
  if (!result) result = stream_synchronize(stream);
  session_back(before);
  return result;
}

// All of it, on these streams of the sessions. When it returns, all is where it goes.
static CUresult carry(const struct crossing *c, const uint64_t streams[SESSIONS_MAX]) {
  if (c->by != SESSION_ANY) return copy_by(c, streams[c->by]);
  uint64_t bytes = c->box.width * c->box.height * c->box.depth;
  char *through = malloc(bytes < PIECE_BYTES ? bytes : PIECE_BYTES);
  CUresult result = through ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  struct box_piece piece = {0};
  while (!result && piece.z < c->box.depth) {
    box_piece_shape(&piece, &c->box, PIECE_BYTES, 1, 1);
    result = move_piece(c, &piece, through, streams);
    box_piece_next(&piece, &c->box);
  }
  if (!result && c->to_session != SESSION_ANY) {
    struct thread_session before = session_switch(c->to_session);
    result = stream_synchronize(streams[c->to_session]);
    session_back(before);
  }
  free(through);
  return result;
}

// A stream of a session that nothing of the program's is on, and that waits for nothing: the steps
// of streams copy there. Only the thread that takes them asks.
static CUresult own_stream(unsigned session, uint64_t streams[SESSIONS_MAX]) {
  static uint64_t made[SESSIONS_MAX];
  CUresult result = CUDA_SUCCESS;
  if (session == SESSION_ANY) return result;
  struct thread_session before = session_switch(session);
  // A reset of the context ends it like any other.
  if (!handle_is_live(WIRE_KIND_STREAM, made[session])) result = stream_begin_apart(&made[session]);
  session_back(before);
  streams[session] = made[session];
  return result;
}

static void carry_step(void *data, struct host_step_call call) {
  struct crossing *c = data;
  uint64_t streams[SESSIONS_MAX] = {0};
  CUresult result = own_stream(c->by == SESSION_ANY ? c->from_session : c->by, streams);
  if (!result && c->by == SESSION_ANY) result = own_stream(c->to_session, streams);
  if (!result) result = carry(c, streams);
  session_use(call.session);
  if (result && !guest_is_lost()) guest_async_error(result);
  free(c);
  host_step_done(call);
}

// Whether an end and what the host has at it may be copied to or from in its session.
static CUresult check_end(const struct box_end *end, unsigned session, const struct box *box) {
  if (session == SESSION_ANY) return CUDA_SUCCESS;
  struct box_end device = *end, host = {.place = BOX_HOST,
                                        .address = (uint64_t)(uintptr_t)&device,
                                        .pitch = box->width,
                                        .rows = box->height};
  struct thread_session before = session_switch(session);
  CUresult result = box_locate(&device, &host, box);
  session_back(before);
  return result;
}

static _Bool is_pageable(const struct box_end *end, unsigned session) {
  return session == SESSION_ANY && !host_is_pinned((const void *)(uintptr_t)end->address, 1);
}

static CUresult copy(struct crossing c, uint64_t stream, _Bool async) {
  CUresult result = check_end(&c.to, c.to_session, &c.box);
  if (!result) result = check_end(&c.from, c.from_session, &c.box);
  if (result) return result;
  // On the legacy stream it begins when all work of both devices is done, and theirs goes on after
  // it. The program may change pageable memory as soon as this returns, or means to read it.
  const _Bool legacy = stream == STREAM_LEGACY_WIRE;
  if (async && !legacy && !is_pageable(&c.to, c.to_session) &&
      !is_pageable(&c.from, c.from_session)) {
    struct crossing *later = malloc(sizeof *later);
    if (!later) return CUDA_ERROR_OUT_OF_MEMORY;
    *later = c;
    result = host_step(stream, carry_step, later);
    if (result) free(later);
    return result;
  }
  result = stream_synchronize(stream);
  // What is waited for is behind the work of both devices, too.
  const unsigned sessions[2] = {c.from_session, c.to_session};
  for (int i = 0; i < 2 && !result; i++)
    if ((!async || legacy) && sessions[i] != SESSION_ANY) result = session_synchronize(sessions[i]);
  const uint64_t streams[SESSIONS_MAX] = {STREAM_LEGACY_WIRE};
  return result ? result : carry(&c, streams);
}

_Bool cross_device_copy(const struct box_end *to, const struct box_end *from, const struct box *box,
                        uint64_t stream, _Bool async, CUresult *result) {
  unsigned here = session_here(), to_session = copy_end_session(to),
           from_session = copy_end_session(from);
  if ((to_session == SESSION_ANY || to_session == here) &&
      (from_session == SESSION_ANY || from_session == here))
    return 0;
  session_use(here);
  if (capture_active() && (*result = recorder->box(stream, to, from, box)) != CAPTURE_NONE)
    return 1;
  struct crossing c = {*to, *from, to_session, from_session, *box, SESSION_ANY};
  c.by = session_of_copy(&c, here);
  session_use(here);
  if (c.by == here && async && stream != STREAM_LEGACY_WIRE) return 0;
  *result = copy(c, stream, async);
  return 1;
}

_Bool cross_device_copy_line(uint64_t to, uint64_t from, uint64_t bytes, uint64_t stream,
                             _Bool async, CUresult *result) {
  if (!bytes) return 0;
  const struct box_end ends[2] = {
      {.place = BOX_EITHER, .address = to, .pitch = bytes, .rows = 1},
      {.place = BOX_EITHER, .address = from, .pitch = bytes, .rows = 1}};
  return cross_device_copy(&ends[0], &ends[1], &(struct box){bytes, 1, 1}, stream, async, result);
}

// ---- fills -------------------------------------------------------------------------------------

CUresult cross_device_fill(uint64_t address, uint64_t *stream, _Bool *away) {
  const struct box_end end = {.place = BOX_DEVICE, .address = address};
  unsigned session = copy_end_session(&end);
  if (session == SESSION_ANY || reaches(session_here(), &end, session)) return CUDA_SUCCESS;
  // In a graph that is captured it is a node, as in a stream of the memory's own device.
  CUresult result = capture_active() ? recorder->look(*stream) : CAPTURE_NONE;
  if (result != CAPTURE_NONE) return result;
  if ((result = stream_synchronize(*stream))) return result;
  *away = 1;
  session_use(session);
  *stream = STREAM_LEGACY_WIRE;
  return CUDA_SUCCESS;
}

CUresult cross_device_filled(CUresult result) {
  return result ? result : stream_synchronize(STREAM_LEGACY_WIRE);
}
