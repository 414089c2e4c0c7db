// What the files that manage streams know of each other.
#ifndef OUTBOARD_STREAMS_INTERNAL_H
#define OUTBOARD_STREAMS_INTERNAL_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

// ---- stream.c ----

// Makes a blocking stream in the current context, for a thread's own default stream.
// CUDA_ERROR_OUT_OF_MEMORY, or what posting returns.
CUresult stream_begin(struct session *session, uint64_t *wire);

// ---- thread_stream.c ----

// Sets *wire to the calling thread's own default stream in the current context, and makes it if
// there is none yet.
CUresult thread_stream_of_caller(uint64_t *wire);

// ---- event.c ----

// Notes that the server says that an event asked about is done.
void event_finished(struct session *session, const struct wire_done *done);

// ---- host_function.c ----

// Takes up that the server says that a stream has come to a function, which is then called on the
// thread of functions. False when there is no function of that number.
_Bool host_function_called(struct session *session, const struct wire_call *call);

// To be called when the thread that read the socket has stopped. Cheap when no function may come.
void host_function_reader_left(void);

#endif
