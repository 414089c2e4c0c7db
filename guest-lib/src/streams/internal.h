// What the files that manage streams know of each other.
#ifndef OUTBOARD_STREAMS_INTERNAL_H
#define OUTBOARD_STREAMS_INTERNAL_H

#include <stdint.h>

#include "cuda_driver.h"
#include "wire.h"

// ---- stream.c ----

// What a default stream of a thread is made with.
CUresult stream_begin(uint64_t *wire);

// ---- thread_stream.c ----

// The calling thread's own default stream in the current context.
CUresult thread_stream_of_caller(uint64_t *wire);

// ---- event.c ----

// The server says that an event asked about is done.
void event_finished(const struct wire_done *done);

// ---- host_function.c ----

// The server says that a stream has come to a function. False: there is none of that number.
_Bool host_function_called(const struct wire_call *call);

// The thread that read the socket has stopped. Cheap when no function may come.
void host_function_reader_left(void);

#endif
