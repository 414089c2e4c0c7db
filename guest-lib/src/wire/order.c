#include "wire/order.h"

#include <stdlib.h>

#include "guest_calls.h"
#include "session/handle.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"

// What is known of a session's streams.
struct session_order {
  struct stream_order legacy;
  _Atomic uint64_t blocking_last;     // last command on any created stream that legacy waits for
  _Atomic uint64_t nonblocking_last;  // last command on streams it does not wait for
  _Atomic uint64_t settled;           // commands up to here are done, on all streams
};

_Bool order_make(struct session *session) {
  if (!session->order) session->order = calloc(1, sizeof *session->order);
  return session->order != NULL;
}

static struct stream_order *find(struct session *session, uint64_t wire) {
  if (wire == STREAM_LEGACY_WIRE) return &session->order->legacy;
  return handle_peek(WIRE_KIND_STREAM, wire);
}

static void raise(_Atomic uint64_t *value, uint64_t to) {
  uint64_t now = atomic_load(value);
  while (now < to && !atomic_compare_exchange_weak(value, &now, to)) {
  }
}

void stream_mark(struct session *session, uint64_t wire, uint64_t sequence) {
  if (wire == BATCH_NO_STREAM) return;
  struct stream_order *stream = find(session, wire);
  if (!stream) return;
  atomic_store_explicit(&stream->last, sequence, memory_order_relaxed);
  struct session_order *order = session->order;
  if (stream == &order->legacy) return;
  atomic_store_explicit(
      stream->flags & CU_STREAM_NON_BLOCKING ? &order->nonblocking_last : &order->blocking_last,
      sequence, memory_order_relaxed);
}

static void mark_one(uint64_t handle, void *object, void *sequence) {
  (void)handle;
  raise(&((struct stream_order *)object)->last, *(uint64_t *)sequence);
}

void stream_mark_all(struct session *session, uint64_t sequence) {
  handle_each(WIRE_KIND_STREAM, mark_one, &sequence);
  raise(&session->order->legacy.last, sequence);
  raise(&session->order->blocking_last, sequence);
  raise(&session->order->nonblocking_last, sequence);
}

static void raise_done(void *object, void *sequence) {
  raise(&((struct stream_order *)object)->done, *(uint64_t *)sequence);
}

void stream_settled(struct session *session, uint64_t wire, uint64_t sequence) {
  if (wire == STREAM_LEGACY_WIRE)
    raise(&session->order->legacy.done, sequence);
  else
    handle_visit(WIRE_KIND_STREAM, wire, raise_done, &sequence);
}

void legacy_operation_settled(struct session *session, uint64_t sequence) {
  raise(&session->order->legacy.done, sequence);
  // It waited for every blocking stream; if the others were done before, all is.
  if (atomic_load(&session->order->nonblocking_last) <= context_settled_sequence(session))
    context_settled(session, sequence);
}

void context_settled(struct session *session, uint64_t sequence) {
  raise(&session->order->settled, sequence);
}
uint64_t context_settled_sequence(struct session *session) {
  return atomic_load(&session->order->settled);
}
_Bool context_is_settled(struct session *session) {
  return batch_sequence(session) <= atomic_load(&session->order->settled);
}

_Bool stream_is_settled(struct session *session, uint64_t wire) {
  struct stream_order *stream = find(session, wire);
  if (!stream) return 0;
  uint64_t last = atomic_load(&stream->last);
  // Synchronising the legacy stream covers the streams it waits for.
  struct session_order *order = session->order;
  if (stream == &order->legacy && atomic_load(&order->blocking_last) > last)
    last = atomic_load(&order->blocking_last);
  return last <= atomic_load(&stream->done) || last <= atomic_load(&order->settled);
}

uint64_t stream_last_sequence(struct session *session, uint64_t wire) {
  struct stream_order *stream = find(session, wire);
  return stream ? atomic_load(&stream->last) : 0;
}

static void read_done(void *object, void *done) {
  *(uint64_t *)done = atomic_load(&((struct stream_order *)object)->done);
}

// The stream may be destroyed at any time by another thread: events outlive their streams.
_Bool stream_has_done(struct session *session, uint64_t wire, uint64_t sequence) {
  if (sequence <= atomic_load(&session->order->settled)) return 1;
  uint64_t done = 0;
  if (wire == STREAM_LEGACY_WIRE)
    done = atomic_load(&session->order->legacy.done);
  else
    handle_visit(WIRE_KIND_STREAM, wire, read_done, &done);
  return sequence <= done;
}

void stream_position(struct session *session, uint64_t wire, struct stream_position *position) {
  struct stream_order *stream = find(session, wire);
  *position = (struct stream_position){0, 0};
  if (!stream) return;
  position->own = atomic_load(&stream->last);
  struct session_order *order = session->order;
  if (stream == &order->legacy && atomic_load(&order->blocking_last) > position->own)
    position->own = atomic_load(&order->blocking_last);
  if (stream != &order->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING))
    position->legacy = atomic_load(&order->legacy.last);
}

_Bool stream_has_passed(struct session *session, uint64_t wire,
                        const struct stream_position *position) {
  return stream_has_done(session, wire, position->own) &&
         stream_has_done(session, STREAM_LEGACY_WIRE, position->legacy);
}

static void raise_finished(void *object, void *request) {
  raise(&((struct stream_order *)object)->finished, *(uint64_t *)request);
}

void stream_finished(struct session *session, const struct wire_done *done) {
  uint64_t request = done->request;
  if (done->handle == STREAM_LEGACY_WIRE)
    raise(&session->order->legacy.finished, request);
  else
    handle_visit(WIRE_KIND_STREAM, done->handle, raise_finished, &request);
}

uint64_t stream_last_finished(struct session *session, uint64_t wire) {
  struct stream_order *stream = find(session, wire);
  return stream ? atomic_load(&stream->finished) : 0;
}

CUresult context_synchronize(struct session *session) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_cuCtxSynchronize(session, &answer);
  answer_free(&answer);
  if (!result) context_settled(session, answer.sequence);
  return result;
}

CUresult session_synchronize(struct session *session) {
  struct thread_session before = session_switch(session);
  CUresult result = context_is_settled(session) ? CUDA_SUCCESS : context_synchronize(session);
  session_back(before);
  return result;
}

void sessions_settle(unsigned sessions) {
  for (struct session *session; sessions_take(&sessions, &session);) {
    struct thread_session before = session_switch(session);
    CUresult result = session_synchronize(session);
    if (result && !guest_is_lost()) guest_async_error(session, result);
    session_back(before);
  }
}
