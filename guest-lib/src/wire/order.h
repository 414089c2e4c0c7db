// The order of commands, and what of them is known to be done. Commands of a session are numbered
// as they are sent (batch_sequence); here is kept, for each stream and for all together, which
// command came last and up to which one all are known to be done ("settled"). A synchronisation
// raises that, and so does what the server says by itself. No function but the last three sends
// anything.
//
// `wire` is a stream of the session as on the wire;
// one that does not exist has no commands. All functions may be called by any thread.
#ifndef OUTBOARD_ORDER_H
#define OUTBOARD_ORDER_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

// The legacy default stream on the wire.
#define STREAM_LEGACY_WIRE 0

// What the object behind a stream's handle begins with, whatever else it has (streams/stream.c).
struct stream_order {
  unsigned flags;
  _Atomic uint64_t last;      // last command put on it
  _Atomic uint64_t done;      // commands up to here are known to be done
  _Atomic uint64_t finished;  // request of the latest query the server reported as done since
  // Where the server's streams take only so many operations (streams/room.h): how many were put
  // here, at most; how many had been when the last mark was; how many are known to be done; and
  // `put` with those that threads have taken room for and not put yet.
  _Atomic uint64_t put, marked, passed, taken;
  uint64_t
      pages;  // of the session's batches of pages, how many it is behind; with the batch locked
};

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool order_make(struct session *session);

// Notes that command `sequence`, whose fixed part is `frame`, was put on the stream;
// BATCH_NO_STREAM is nothing. Called with the batch locked.
void stream_mark(struct session *session, uint64_t wire, uint64_t sequence,
                 const struct wire_header *frame);

// The most operations of the server's driver that a command becomes which is no long download, with
// the wait for pages before it and the event of a query behind it.
#define STREAM_OPERATIONS_MOST 6
// An upload becomes a copy and an event, so one that is sent in so many parts twice as many.
#define STREAM_OPERATIONS_OF_UPLOAD 2
#define STREAM_OPERATIONS_OF_LATE_UPLOAD 3
// Return how many operations a download becomes, at most: of so many bytes in a row, or of a box.
unsigned stream_operations_of_download(const struct session *session, uint64_t bytes);
unsigned stream_operations_of_box(const struct session *session, uint64_t width, uint64_t height,
                                  uint64_t depth);

// Takes room for so many operations, which the calling thread is about to put on the stream, where
// there are no more than `most` then or it has none at all. False where there is no room. The next
// command that the thread puts there has the room, and what it does not need is given back.
_Bool stream_take_room(struct session *session, uint64_t wire, struct stream_order *order,
                       uint64_t operations, uint64_t most);
// Gives back what the thread has taken and not used.
void stream_give_room_back(void);
extern __thread unsigned stream_room_taken;
// To be called where a call ends that may have put nothing after it had taken room.
static inline CUresult stream_leave_room(CUresult result) {
  if (__builtin_expect(stream_room_taken != 0, 0)) stream_give_room_back();
  return result;
}
// Notes that what was asked has put as many operations on the stream as room was taken for.
void stream_room_used(void);
// Returns what is kept for a stream that is live; NULL for one that is not.
struct stream_order *stream_order(struct session *session, uint64_t wire);
// Notes that the server says that a stream has come beyond a mark.
void stream_passed(struct session *session, const struct wire_passed *passed);

// Notes that command `sequence` was put on all streams. Called without a lock.
void stream_mark_all(struct session *session, uint64_t sequence);

// Note that everything on the stream, or on all streams, is done up to command `sequence`.
void stream_settled(struct session *session, uint64_t wire, uint64_t sequence);
void context_settled(struct session *session, uint64_t sequence);
// Notes that command `sequence`, an operation on the legacy default stream, is done. Such an
// operation has waited for all blocking streams.
void legacy_operation_settled(struct session *session, uint64_t sequence);
// Notes that command `sequence`, an operation on any stream that was waited for, is done.
static inline void stream_operation_settled(struct session *session, uint64_t wire,
                                            uint64_t sequence) {
  if (wire == STREAM_LEGACY_WIRE)
    legacy_operation_settled(session, sequence);
  else
    stream_settled(session, wire, sequence);
}
// Whether command `sequence`, which was put on the stream, is known to be done. The stream may have
// been destroyed since.
_Bool stream_has_done(struct session *session, uint64_t wire, uint64_t sequence);

// What has to be done before the next command of a stream begins: the last command of its own and,
// where the stream waits for the legacy stream, the last of that.
struct stream_position {
  uint64_t own, legacy;
};
// Sets *position to where the stream is now.
void stream_position(struct session *session, uint64_t wire, struct stream_position *position);
// Whether the stream is known to have come beyond that position.
_Bool stream_has_passed(struct session *session, uint64_t wire,
                        const struct stream_position *position);

// Whether all that was put on the stream, or on any stream, is known to be done.
_Bool stream_is_settled(struct session *session, uint64_t wire);
_Bool context_is_settled(struct session *session);

// Returns the number up to which commands are known to be done on all streams.
uint64_t context_settled_sequence(struct session *session);

// Returns the number of the last command put on the stream; 0 when there is none.
uint64_t stream_last_sequence(struct session *session, uint64_t wire);

// Notes that the server says that a stream asked about is done.
void stream_finished(struct session *session, const struct wire_done *done);
// Returns the number of the latest question (answer->request) about the stream to which the server
// has said so; 0 when there is none.
uint64_t stream_last_finished(struct session *session, uint64_t wire);

// Waits for all work of the session: a round trip. Returns an error of the work, or what guest_lost
// (enter.h) says.
CUresult context_synchronize(struct session *session);
// Waits for all work of the session `session`, with the same results, unless it is known to be
// done.
CUresult session_synchronize(struct session *session);
// Waits for all work of a set of sessions, a bit each. Their errors are kept (guest_async_error)
// for the next calls of the program that wait for them.
void sessions_settle(unsigned sessions);

#endif
