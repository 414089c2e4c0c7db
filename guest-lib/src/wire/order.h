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
};

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool order_make(struct session *session);

// Notes that command `sequence` was put on the stream; BATCH_NO_STREAM is nothing. Called with the
// batch locked.
void stream_mark(struct session *session, uint64_t wire, uint64_t sequence);

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
