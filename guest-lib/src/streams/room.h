// Room in the streams of the server's driver. NVIDIA's driver takes some thousand operations of a
// stream and keeps whoever puts one more there waiting until one is done. On the server that would
// be the thread that reads this session's commands, and what the stream waits for (a function that
// returns, a value that is written) may be the next of them. So the program's thread waits here,
// where it would wait with a driver of its own, and the commands of the others go on.
//
// The server tells how many operations its streams take (Welcome.stream_operations, which it has
// measured). They are counted as commands are put into the batch (wire/order.c); marks among them
// come back when the stream has passed them. Who finds room takes it, so that no other thread takes
// it as well, and the next command of the thread on that stream has it. A call that puts several
// commands there takes room for each.
#ifndef OUTBOARD_ROOM_H
#define OUTBOARD_ROOM_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "streams/pending.h"
#include "wire/order.h"

// Waits until the stream has room for so many operations of the server's driver, or has none at
// all, and takes it. The same as below.
CUresult room_wait(struct session *session, uint64_t wire, unsigned operations);
static inline CUresult stream_await_operations(struct session *session, uint64_t wire,
                                               unsigned operations) {
  return __builtin_expect(session->stream_operations != 0, 0) ? room_wait(session, wire, operations)
                                                              : CUDA_SUCCESS;
}

// To be called before a call of the program puts work on a stream of the session, with no lock
// held. Waits until the stream has room for one command that is no long download, and takes it; a
// call that puts none there gives it back (stream_leave_room). Returns what guest_lost
// (wire/enter.h) says when the connection is lost meanwhile.
static inline CUresult stream_await_room(struct session *session, uint64_t wire) {
  return stream_await_operations(session, wire, STREAM_OPERATIONS_MOST);
}

// Takes room for one operation, as a question of the stream may become, without waiting. False
// where there is none: something of the stream is not done.
_Bool room_for_query(struct session *session, uint64_t wire);

// Keeps the server able to take up what a function of the program says when it returns. A call of
// the server's driver may wait for that function, and meanwhile what comes is kept, up to a limit
// (read_ahead_bytes, docs/limits.md), in which the return has to fit. To be called before a call of
// the program sends `bytes` of payload, with no lock held that a function's return takes. Now and
// then it waits until the server has executed what was sent.
void room_await_server(struct session *session, uint64_t bytes);
static inline void stream_await_server(struct session *session, uint64_t bytes) {
  if (__builtin_expect(atomic_load_explicit(&pending_seen, memory_order_relaxed), 0))
    room_await_server(session, bytes);
}

#endif
