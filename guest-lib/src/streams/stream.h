// Streams: handles, the per-thread default stream, and what is known to be done.
#ifndef OUTBOARD_STREAM_H
#define OUTBOARD_STREAM_H

#include <stdint.h>

#include "cuda_driver.h"
#include "wire.h"

// Stands for the legacy default stream on the wire.
#define STREAM_LEGACY_WIRE 0

// The wire handle of `stream`. NULL means the legacy default stream, or the calling thread's own
// where the program was compiled for per-thread default streams.
CUresult stream_resolve(CUstream stream, int per_thread, uint64_t *wire);
// The same for a call that puts work there, which captures may forbid.
CUresult stream_for_work(CUstream stream, int per_thread, uint64_t *wire);

// The context of a stream.
uint64_t stream_context(uint64_t wire);

// The calling thread's own default stream in the current context (thread_stream.c), and what it is
// made with.
CUresult thread_stream_of_caller(uint64_t *wire);
CUresult stream_begin(uint64_t *wire);
// One that waits for nothing, and that nothing waits for, of this library's own.
CUresult stream_begin_apart(uint64_t *wire);
void stream_end(uint64_t wire);

// What a live stream keeps of its attributes (stream_attributes.c); freed with it.
struct stream_attributes;
struct stream_attributes **stream_attributes(uint64_t wire);

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

// Ends all streams: their handles are invalid from now on. For a reset of the context.
void stream_forget_all(void);
// Waits for the work of a context that ends. An error may be another's, which is to hear of it.
void stream_synchronize_of(uint64_t context);
// Destroys the streams created in a context that ends.
void stream_destroy_of(uint64_t context);
// The server says that a stream asked about is done.
void stream_finished(const struct wire_done *done);

// Waits for a stream.
CUresult stream_synchronize(uint64_t wire);

// Waits for everything. The generated round trip, shared by the callers that need it.
CUresult context_synchronize(void);
// The same for what was put on the streams of a lane, unless it is known to be done.
CUresult lane_synchronize(unsigned lane);

#endif
