// The way out: commands are appended to one batch and leave when a caller must wait, when the batch
// is full, or when the server has nothing left to do.
//
// Each session has its own (session.h); everything here is about that of the session the thread is
// in.
//
// Locks, in the order they are taken: send (one sender at a time) -> batch (the buffer being
// filled) -> answers (who waits for what). A thread that only posts takes the batch lock alone.
#ifndef OUTBOARD_BATCH_H
#define OUTBOARD_BATCH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "cuda_driver.h"
#include "wire.h"
#include "wire/answer.h"

#define BATCH_BYTES (256u << 10)
// Payloads up to this are copied into the batch; larger ones go from the program's memory to the
// socket.
#define BATCH_COPY_MAX (16u << 10)
#define BATCH_NO_STREAM UINT64_MAX

// A frame to fill, with the batch locked; NULL when it cannot be sent (nothing is locked).
// `size` includes the header. Ends with batch_end, batch_wait or batch_defer.
void *batch_begin(uint16_t op, size_t size);
CUresult batch_end(uint64_t stream);

// The same for a frame that `length` bytes of payload follow. The payload is consumed when
// batch_end_bulk returns.
void *batch_begin_bulk(uint16_t op, size_t size, const void *payload, uint64_t length);
CUresult batch_end_bulk(uint64_t stream, const void *payload, uint64_t length);

// A frame that wants an answer. batch_wait sends the batch and waits for it; batch_defer lets the
// answer come when it comes (answer.h).
void *batch_ask(uint16_t op, size_t size, struct answer *answer);
CUresult batch_wait(struct answer *answer, size_t reply_size);
CUresult batch_defer(uint64_t stream);
// batch_wait in two: the batch is sent, and whoever asked does something else before it collects
// the answer, which it has to. What the server does for it belongs to the stream. Errors of earlier
// work stay for the next call that waits.
void batch_leave(uint64_t stream);
CUresult batch_collect(struct answer *answer, size_t reply_size);

// Bytes behind a frame's fixed part, padded with zeros.
static inline void batch_blob(unsigned char *at, const void *blob, uint32_t size) {
  if (size) memcpy(at, blob, size);  // NULL is fine then
  memset(at + size, 0, wire_round_up(size) - size);
}

// Sends what is in the batch now.
void batch_send(void);

// Number of the last command put into the batch: commands are numbered from 1 in the order they
// are sent.
uint64_t batch_sequence(void);

// The server has taken up all it was sent.
void batch_server_idle(void);

// Nobody reads what the server sends any more: a sender that relied on it has to look for itself.
void batch_reader_left(void);

// Starts the thread that sends what nobody waits for. Called once, after attach.
int batch_start(void);

#endif
