// The way out: commands are appended to one batch and leave when a caller must wait, when the batch
// is full, or when the sender's thread (sender.h) comes to them. That lets them be while the server
// is not idle, unless an answer is expected. The server is idle when it has taken up all it was
// sent.
//
// Each session has a batch of its own. A function that returns NULL has sent and locked nothing:
// the connection is gone, or the call was given things of two sessions. What the program then gets
// is what guest_lost (enter.h) returns.
//
// Locks, in the order they are taken: send (one sender at a time) -> batch (the buffer being
// filled) -> answers (who waits for what). A thread that only posts takes the batch lock alone.
#ifndef OUTBOARD_BATCH_H
#define OUTBOARD_BATCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"
#include "wire/answer.h"

#define BATCH_BYTES (256u << 10)
// Payloads of up to so many bytes are copied into the batch; larger ones go from the program's
// memory to the socket.
#define BATCH_COPY_MAX (16u << 10)
// In place of a stream: the command belongs to none.
#define BATCH_NO_STREAM UINT64_MAX

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool outbox_make(struct session *session);

// Appends a frame and returns it, its header filled in, for the caller to fill the rest. The batch
// is locked until the caller ends the frame with batch_end, in the same thread. `size` is the
// frame's in bytes, header included: a multiple of 8, at most BATCH_BYTES, and at most
// WIRE_FRAME_MAX for a command without payload. What is in the batch is sent first if it is full.
void *batch_begin(struct session *session, uint16_t op, size_t size);
// Ends a frame: notes that the command was put on `stream` (a stream as on the wire, or
// BATCH_NO_STREAM), unlocks the batch and lets the sender know. Always CUDA_SUCCESS.
CUresult batch_end(struct session *session, uint64_t stream);

// The same for a frame that `length` bytes of payload follow, at most WIRE_BULK_MAX; `size` is
// without them. Both functions are given the same length. The payload has been copied or sent when
// batch_end_bulk returns: CUDA_ERROR_INVALID_VALUE when it was not readable (the server got zeros),
// or what guest_lost says when the connection broke.
void *batch_begin_bulk(struct session *session, uint16_t op, size_t size, uint64_t length);
CUresult batch_end_bulk(struct session *session, uint64_t stream, const void *payload,
                        uint64_t length);

// Appends a frame that wants an answer, as batch_begin does. `answer` is initialised (answer_init),
// says where data is to go, and stays until the answer is there. The caller fills the frame and
// ends it with batch_wait, batch_defer or batch_leave.
void *batch_ask(struct session *session, uint16_t op, size_t size, struct answer *answer);
// Sends the batch and waits for the answer. A reply of fewer than `reply_size` bytes ends the
// session. Returns the result of the command or, where that is CUDA_SUCCESS, an error of earlier
// asynchronous work. The caller frees the reply with answer_free.
CUresult batch_wait(struct session *session, struct answer *answer, size_t reply_size);
// Ends a question that nobody waits for: the answer, one of answer_take_deferred, lands when it
// comes.
CUresult batch_defer(struct session *session, uint64_t stream);
// batch_wait in two steps. batch_leave sends the batch; whoever asked may do something else then,
// and has to call batch_collect, which waits for the answer. What the server does for the question
// belongs to `stream`. Errors of earlier work stay for the next call that waits.
void batch_leave(struct session *session, uint64_t stream);
CUresult batch_collect(struct session *session, struct answer *answer, size_t reply_size);

// Copies `size` bytes behind a frame's fixed part, and pads them with zeros to a multiple of 8.
static inline void batch_blob(unsigned char *at, const void *blob, uint32_t size) {
  if (size) memcpy(at, blob, size);  // NULL is fine then
  memset(at + size, 0, wire_round_up(size) - size);
}

// Sends what is in the batch now, and returns when the socket has taken it. No lock of the batch or
// of answers may be held. A connection that breaks is noted (answer_give_up).
void batch_send(struct session *session);

// Notes that the session is released (guest_set_released), after which nothing is put into the
// batch. False where it is not empty: somebody is at work, and nothing has changed.
_Bool batch_release(struct session *session);

// Returns the number of the last command put into the batch. Commands of a session are numbered
// from 1 in the order in which they are sent.
uint64_t batch_sequence(struct session *session);

// To be called when the server has said that it is idle, or has answered, which counts as much:
// what is in the batch need not be held back any longer.
void batch_server_idle(struct session *session);

// To be called when a thread stops reading what the server sends: a sender that relied on it has to
// look for itself.
void batch_reader_left(struct session *session);

#endif
