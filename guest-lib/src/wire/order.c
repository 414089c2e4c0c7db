#include "wire/order.h"

#include "guest_calls.h"
#include "session/handle.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"

// What is known of a session's streams.
static struct session_order {
  struct stream_order legacy;
  _Atomic uint64_t blocking_last;     // last command on any created stream that legacy waits for
  _Atomic uint64_t nonblocking_last;  // last command on streams it does not wait for
  _Atomic uint64_t settled;           // commands up to here are done, on all streams
} orders[SESSIONS_MAX];

static struct session_order *here(void) { return &orders[session_here()]; }

static struct stream_order *find(uint64_t wire) {
  if (wire == STREAM_LEGACY_WIRE) return &here()->legacy;
  return handle_object(WIRE_KIND_STREAM, wire);
}

static void raise(_Atomic uint64_t *value, uint64_t to) {
  uint64_t now = atomic_load(value);
  while (now < to && !atomic_compare_exchange_weak(value, &now, to)) {
  }
}

void stream_mark(uint64_t wire, uint64_t sequence) {
  if (wire == BATCH_NO_STREAM) return;
  struct stream_order *stream = find(wire);
  if (!stream) return;
  atomic_store_explicit(&stream->last, sequence, memory_order_relaxed);
  struct session_order *session = here();
  if (stream == &session->legacy) return;
  atomic_store_explicit(
      stream->flags & CU_STREAM_NON_BLOCKING ? &session->nonblocking_last : &session->blocking_last,
      sequence, memory_order_relaxed);
}

static void mark_one(uint64_t handle, void *object, void *sequence) {
  (void)handle;
  raise(&((struct stream_order *)object)->last, *(uint64_t *)sequence);
}

void stream_mark_all(uint64_t sequence) {
  handle_each(WIRE_KIND_STREAM, mark_one, &sequence);
  raise(&here()->legacy.last, sequence);
  raise(&here()->blocking_last, sequence);
  raise(&here()->nonblocking_last, sequence);
}

static void raise_done(void *object, void *sequence) {
  raise(&((struct stream_order *)object)->done, *(uint64_t *)sequence);
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
  struct stream_order *stream = find(wire);
  if (!stream) return 0;
  uint64_t last = atomic_load(&stream->last);
  // Synchronising the legacy stream covers the streams it waits for.
  struct session_order *session = here();
  if (stream == &session->legacy && atomic_load(&session->blocking_last) > last)
    last = atomic_load(&session->blocking_last);
  return last <= atomic_load(&stream->done) || last <= atomic_load(&session->settled);
}

uint64_t stream_last_sequence(uint64_t wire) {
  struct stream_order *stream = find(wire);
  return stream ? atomic_load(&stream->last) : 0;
}

static void read_done(void *object, void *done) {
  *(uint64_t *)done = atomic_load(&((struct stream_order *)object)->done);
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
  struct stream_order *stream = find(wire);
  *position = (struct stream_position){0, 0};
  if (!stream) return;
  position->own = atomic_load(&stream->last);
  struct session_order *session = here();
  if (stream == &session->legacy && atomic_load(&session->blocking_last) > position->own)
    position->own = atomic_load(&session->blocking_last);
  if (stream != &session->legacy && !(stream->flags & CU_STREAM_NON_BLOCKING))
    position->legacy = atomic_load(&session->legacy.last);
}

_Bool stream_has_passed(uint64_t wire, const struct stream_position *position) {
  return stream_has_done(wire, position->own) &&
         stream_has_done(STREAM_LEGACY_WIRE, position->legacy);
}

static void raise_finished(void *object, void *request) {
  raise(&((struct stream_order *)object)->finished, *(uint64_t *)request);
}

void stream_finished(const struct wire_done *done) {
  uint64_t request = done->request;
  if (done->handle == STREAM_LEGACY_WIRE)
    raise(&here()->legacy.finished, request);
  else
    handle_visit(WIRE_KIND_STREAM, done->handle, raise_finished, &request);
}

uint64_t stream_last_finished(uint64_t wire) {
  struct stream_order *stream = find(wire);
  return stream ? atomic_load(&stream->finished) : 0;
}

CUresult context_synchronize(void) {
  struct answer answer;
  answer_init(&answer);
  CUresult result = ask_cuCtxSynchronize(&answer);
  answer_free(&answer);
  if (!result) context_settled(answer.sequence);
  return result;
}

CUresult session_synchronize(unsigned session) {
  struct thread_session before = session_switch(session);
  CUresult result = context_is_settled() ? CUDA_SUCCESS : context_synchronize();
  session_back(before);
  return result;
}

void sessions_settle(unsigned sessions) {
  for (unsigned session; sessions_take(&sessions, &session);) {
    struct thread_session before = session_switch(session);
    CUresult result = session_synchronize(session);
    if (result && !guest_is_lost()) guest_async_error(result);
    session_back(before);
  }
}
