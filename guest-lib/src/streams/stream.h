// Streams: their handles, and the per-thread default stream. What of their work is known to be done
// is kept in wire/order.h. Functions that are given no session are about the one that the thread is
// in; `wire` is a stream as on the wire.
#ifndef OUTBOARD_STREAM_H
#define OUTBOARD_STREAM_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"
#include "wire/order.h"

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool stream_make(struct session *session);

// Sets *wire to a stream that the program names, and follows it into its session. NULL means the
// legacy default stream or, where `per_thread` says that the program was compiled for it, the
// calling thread's own. CUDA_ERROR_INVALID_HANDLE when there is no such stream.
CUresult stream_resolve(CUstream stream, int per_thread, uint64_t *wire);
// Does the same for a call that puts work there, and returns the error of a capture that forbids
// it.
CUresult stream_for_work(CUstream stream, int per_thread, uint64_t *wire);

// Returns the handle of the context that a stream was made in; for the legacy stream, and for none,
// that of the current context.
uint64_t stream_context(uint64_t wire);

// Makes a stream of this library's own, which waits for no other stream and which none waits for.
// CUDA_ERROR_OUT_OF_MEMORY, or what posting returns. stream_end destroys it.
CUresult stream_begin_apart(struct session *session, uint64_t *wire);
void stream_end(uint64_t wire);

// Returns where a live stream keeps its attributes (kernels/stream_attributes.c), which are NULL at
// first and freed with the stream.
struct stream_attributes;
struct stream_attributes **stream_attributes(uint64_t wire);

// Ends all streams of the session after a reset of the context. The server has none of them any
// more.
void stream_forget_all(struct session *session);
// Waits for the work of a created context of the session, which ends. Its errors are kept for the
// next call that synchronises, as they may be those of another context's work.
void stream_synchronize_of(struct session *session, uint64_t context);
// Destroys the streams that were created in a context of the session, which ends.
void stream_destroy_of(struct session *session, uint64_t context);

// Waits until the work on a stream is done: a round trip, unless it is known to be done. Returns an
// error of the work, or what guest_lost (wire/enter.h) says. Does not ask whether the stream is
// captured.
CUresult stream_synchronize(struct session *session, uint64_t wire);

#endif
