// Streams: handles, and the per-thread default stream. What is known to be done is wire/order.h.
#ifndef OUTBOARD_STREAM_H
#define OUTBOARD_STREAM_H

#include <stdint.h>

#include "cuda_driver.h"
#include "wire.h"
#include "wire/order.h"

// The wire handle of `stream`. NULL means the legacy default stream, or the calling thread's own
// where the program was compiled for per-thread default streams.
CUresult stream_resolve(CUstream stream, int per_thread, uint64_t *wire);
// The same for a call that puts work there, which captures may forbid.
CUresult stream_for_work(CUstream stream, int per_thread, uint64_t *wire);

// The context of a stream.
uint64_t stream_context(uint64_t wire);

// One that waits for nothing, and that nothing waits for, of this library's own.
CUresult stream_begin_apart(uint64_t *wire);
void stream_end(uint64_t wire);

// What a live stream keeps of its attributes (stream_attributes.c); freed with it.
struct stream_attributes;
struct stream_attributes **stream_attributes(uint64_t wire);

// Ends all streams: their handles are invalid from now on. For a reset of the context.
void stream_forget_all(void);
// Waits for the work of a context that ends. An error may be another's, which is to hear of it.
void stream_synchronize_of(uint64_t context);
// Destroys the streams created in a context that ends.
void stream_destroy_of(uint64_t context);

// Waits for a stream.
CUresult stream_synchronize(uint64_t wire);

#endif
