// What is known to be done, by the numbers of commands: on a stream, and on all of a device. A
// synchronisation raises it, and so does what the server says by itself.
//
// Everything here is about the session that the thread is in.
#ifndef OUTBOARD_ORDER_H
#define OUTBOARD_ORDER_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

// Stands for the legacy default stream on the wire.
#define STREAM_LEGACY_WIRE 0

// What objects of handles of streams begin with.
struct stream_order {
  unsigned flags;
  _Atomic uint64_t last;      // last command put on it
  _Atomic uint64_t done;      // commands up to here are known to be done
  _Atomic uint64_t finished;  // request of the latest query the server reported as done since
};

// Command `sequence` was put on stream `wire`. Called with the batch locked.
void stream_mark(uint64_t wire, uint64_t sequence);

// The same of all streams. Without a lock.
void stream_mark_all(uint64_t sequence);

// Everything on the stream (or in the context) up to command `sequence` is known to be done.
void stream_settled(uint64_t wire, uint64_t sequence);
void context_settled(uint64_t sequence);
// The same for an operation on the legacy default stream, which waits for all blocking streams.
void legacy_operation_settled(uint64_t sequence);
// The same for a copy on any stream that was waited for.
static inline void stream_operation_settled(uint64_t wire, uint64_t sequence) {
  if (wire == STREAM_LEGACY_WIRE)
    legacy_operation_settled(sequence);
  else
    stream_settled(wire, sequence);
}
_Bool stream_has_done(uint64_t wire, uint64_t sequence);

// What comes before the next command of a stream: commands of its own and, for a stream that waits
// for it, of the legacy stream.
struct stream_position {
  uint64_t own, legacy;
};
void stream_position(uint64_t wire, struct stream_position *position);
_Bool stream_has_passed(uint64_t wire, const struct stream_position *position);

// Whether all that was sent is known to be done, on one stream or altogether.
_Bool stream_is_settled(uint64_t wire);
_Bool context_is_settled(void);

// Commands up to this number are known to be done on all streams.
uint64_t context_settled_sequence(void);

// The last command put on the stream.
uint64_t stream_last_sequence(uint64_t wire);

// The server says that a stream asked about is done; the request of the latest such question.
void stream_finished(const struct wire_done *done);
uint64_t stream_last_finished(uint64_t wire);

// Waits for everything. The generated round trip, shared by the callers that need it.
CUresult context_synchronize(void);
// The same for what was put on the streams of a session, unless it is known to be done.
CUresult session_synchronize(unsigned session);
// The same for a set of sessions, a bit each. Their errors stay for calls of the program that wait
// for them.
void sessions_settle(unsigned sessions);

#endif
