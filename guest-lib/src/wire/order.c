#include "wire/order.h"

#include <stdlib.h>

#include "guest_calls.h"
#include "session/handle.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"
#include "wire/region.h"

// What is known of a session's streams.
struct session_order {
  struct stream_order legacy;
  _Atomic uint64_t blocking_last;     // last command on any created stream that legacy waits for
  _Atomic uint64_t nonblocking_last;  // last command on streams it does not wait for
  _Atomic uint64_t settled;           // commands up to here are done, on all streams
  uint64_t pages;                     // batches of pages that were sent; with the batch locked
};

_Bool order_make(struct session *session) { return session_part(session->order); }

struct stream_order *stream_order(struct session *session, uint64_t wire) {
  if (wire == STREAM_LEGACY_WIRE) return &session->order->legacy;
  return handle_peek(WIRE_KIND_STREAM, wire);
}

static void raise(_Atomic uint64_t *value, uint64_t to) {
  uint64_t now = atomic_load(value);
  while (now < to && !atomic_compare_exchange_weak(value, &now, to)) {
  }
}

// ---- operations of the server's driver ---------------------------------------------------------

// By so many bytes the server copies what goes through memory that both share.
#define REGION_PIECE (256u << 10)

// An event is behind each copy; what is more than so many goes by a stream aside, for which this
// one waits.
static unsigned operations_of_pieces(const struct session *session, uint64_t pieces) {
  const unsigned most = wire_download_pieces(session->stream_operations);
  return 2 * (unsigned)(pieces <= most ? pieces : most + 1);
}

unsigned stream_operations_of_download(const struct session *session, uint64_t bytes) {
  const uint64_t piece = session->region_state == REGION_NONE ? WIRE_BULK_MAX : REGION_PIECE;
  return operations_of_pieces(session, bytes / piece + (bytes % piece != 0));
}

// As the server cuts them (part_of, api-server/executor/commands/box.cc).
unsigned stream_operations_of_box(const struct session *session, uint64_t width, uint64_t height,
                                  uint64_t depth) {
  const uint64_t most = WIRE_BULK_MAX;
  if (!width || !height || !depth) return 0;
  uint64_t pieces;
  if (width <= most / height) {
    const uint64_t slices = most / (width * height);
    pieces = (depth - 1) / slices + 1;
  } else if (width <= most) {
    const uint64_t rows = most / width;
    pieces = depth * ((height - 1) / rows + 1);
  } else {
    pieces = depth * height * ((width - 1) / most + 1);
  }
  return operations_of_pieces(session, pieces);
}

// How many operations of the driver a command becomes, at most. Before a launch the server may put
// what holds it back, and events around it that measure it; behind an upload, an event.
static unsigned operations(const struct session *session, const struct wire_header *frame) {
  switch (frame->op) {
    case WIRE_Launch:
    case WIRE_LaunchWith:
    case WIRE_GraphLaunch:
      return 4;
    case WIRE_Upload:
    case WIRE_UploadKeep:
    case WIRE_BoxUpload:
    case WIRE_RegionUpload:
      return STREAM_OPERATIONS_OF_UPLOAD;
    case WIRE_LateUpload:
      return STREAM_OPERATIONS_OF_LATE_UPLOAD;
    case WIRE_UploadAsk: {
      const uint64_t bytes = ((const struct wire_UploadAsk *)frame)->length;
      return STREAM_OPERATIONS_OF_UPLOAD * (unsigned)((bytes - 1) / WIRE_BULK_MAX + 1);
    }
    case WIRE_Download:
      return stream_operations_of_download(session, ((const struct wire_Download *)frame)->length);
    case WIRE_RegionDownload:
      return stream_operations_of_download(session,
                                           ((const struct wire_RegionDownload *)frame)->length);
    case WIRE_BoxDownload: {
      const struct wire_BoxDownload *box = (const struct wire_BoxDownload *)frame;
      return stream_operations_of_box(session, box->width, box->height, box->depth);
    }
    default:
      return 1;
  }
}

// What the calling thread has taken room for.
__thread unsigned stream_room_taken;
static __thread struct {
  struct session *session;
  uint64_t wire;
} taken_on;

_Bool stream_take_room(struct session *session, uint64_t wire, struct stream_order *order,
                       uint64_t operations, uint64_t most) {
  uint64_t taken = atomic_load(&order->taken);
  do {
    const uint64_t busy = taken - atomic_load(&order->passed);
    if (busy && busy + operations > most) return 0;
  } while (!atomic_compare_exchange_weak(&order->taken, &taken, taken + operations));
  stream_room_taken = (unsigned)operations;
  taken_on.session = session;
  taken_on.wire = wire;
  return 1;
}

void stream_give_room_back(void) {
  struct stream_order *order =
      stream_room_taken ? stream_order(taken_on.session, taken_on.wire) : NULL;
  if (order) atomic_fetch_sub(&order->taken, stream_room_taken);
  stream_room_taken = 0;
}

void stream_room_used(void) {
  struct stream_order *order =
      stream_room_taken ? stream_order(taken_on.session, taken_on.wire) : NULL;
  if (order) atomic_fetch_add(&order->put, stream_room_taken);
  stream_room_taken = 0;
}

// With the batch locked, so that `put` is changed by one thread at a time.
static void count(struct session *session, uint64_t wire, struct stream_order *stream,
                  const struct wire_header *frame) {
  uint64_t put = operations(session, frame);
  // It waits for the pages that were sent before.
  put += stream->pages != session->order->pages;
  stream->pages = session->order->pages;
  const _Bool own = stream_room_taken && taken_on.session == session && taken_on.wire == wire;
  atomic_fetch_add(&stream->put, put);
  atomic_fetch_add(&stream->taken, put - (own ? stream_room_taken : 0));
  if (own) stream_room_taken = 0;
}

void stream_mark(struct session *session, uint64_t wire, uint64_t sequence,
                 const struct wire_header *frame) {
  if (wire == BATCH_NO_STREAM) {
    if (frame->op == WIRE_PagesUpload) session->order->pages++;
    return;
  }
  struct stream_order *stream = stream_order(session, wire);
  if (!stream) return;
  atomic_store_explicit(&stream->last, sequence, memory_order_relaxed);
  // Behind that: who sees it counted must not take the stream for done without it. Marks are in the
  // room that is left (streams/room.c).
  if (session->stream_operations && frame->op != WIRE_StreamMark)
    count(session, wire, stream, frame);
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
  handle_each(session, WIRE_KIND_STREAM, mark_one, &sequence);
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
  struct stream_order *stream = stream_order(session, wire);
  if (!stream) return 0;
  uint64_t last = atomic_load(&stream->last);
  // Synchronising the legacy stream covers the streams it waits for.
  struct session_order *order = session->order;
  if (stream == &order->legacy && atomic_load(&order->blocking_last) > last)
    last = atomic_load(&order->blocking_last);
  return last <= atomic_load(&stream->done) || last <= atomic_load(&order->settled);
}

uint64_t stream_last_sequence(struct session *session, uint64_t wire) {
  struct stream_order *stream = stream_order(session, wire);
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
  struct stream_order *stream = stream_order(session, wire);
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

// The server names what this side has counted: more than that it cannot mean.
static void raise_passed(void *object, void *place) {
  struct stream_order *order = object;
  const uint64_t put = atomic_load(&order->put), to = *(uint64_t *)place;
  raise(&order->passed, to < put ? to : put);
}

void stream_passed(struct session *session, const struct wire_passed *passed) {
  uint64_t place = passed->place;
  if (passed->stream == STREAM_LEGACY_WIRE)
    raise_passed(&session->order->legacy, &place);
  else
    handle_visit(WIRE_KIND_STREAM, passed->stream, raise_passed, &place);
}

uint64_t stream_last_finished(struct session *session, uint64_t wire) {
  struct stream_order *stream = stream_order(session, wire);
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
    CUresult result = session_synchronize(session);
    if (result && !guest_is_lost()) guest_async_error(session, result);
  }
}
