// Captures: while a stream is captured, work that is put on it is recorded into a graph and not
// sent. The folder capture/ does that. It may not be known here, so it makes itself known as a
// recorder, a table of functions, to all files that put work on streams.
//
// Whoever puts work on a stream asks the recorder twice: whether it may, before the parameters are
// looked at (stream_for_work does that), and whether the work becomes a node, once they are
// checked. The recorder is only called where capture_active() is true. That is one load, and false
// while nothing is captured. Calls that put one command (`captured: true` in proto/api) ask in the
// generated put_X; the others do so by hand.
#ifndef OUTBOARD_RECORDER_H
#define OUTBOARD_RECORDER_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda_driver.h"

// What functions of the recorder return when the stream is not captured: the command is to be sent.
#define CAPTURE_NONE ((CUresult)-1)
// What free_left returns for memory that is no graph's.
#define GRAPH_MEMORY_NONE ((CUresult)-1)

extern _Atomic unsigned capture_count;        // captures under way
extern _Atomic unsigned capture_event_count;  // events last recorded in a capture
static inline _Bool capture_active(void) {
  return atomic_load_explicit(&capture_count, memory_order_relaxed) != 0;
}
static inline _Bool capture_has_events(void) {
  return atomic_load_explicit(&capture_event_count, memory_order_relaxed) != 0;
}

struct copy;
struct wire_value;

struct recorder {
  // Each says whether a call may go on as far as captures are concerned: CUDA_SUCCESS, or the error
  // that the program gets. A call that captures forbid invalidates them.
  CUresult (*check_unsafe)(void);           // for calls that may wait for the device
  CUresult (*check_wait)(uint64_t stream);  // waits for a stream, or asks whether it is done
  CUresult (*check_context_wait)(void);     // waits for the current context
  CUresult (*check_legacy_wait)(uint64_t context);  // for the legacy stream of a context
  CUresult (*check_event)(uint64_t event);          // asks about an event
  CUresult (*check_work)(uint64_t stream);          // puts work on a stream
  // As check_work, but returns CAPTURE_NONE when the stream is not captured.
  CUresult (*look)(uint64_t stream);
  // Each makes a node of the work if its stream is captured, and returns what the program gets;
  // CAPTURE_NONE otherwise. Streams, events and device addresses are as on the wire, sizes in
  // bytes; the work is checked.
  CUresult (*launch)(uint64_t stream, const void *function, const CUlaunchConfig *config,
                     _Bool cooperative, const void *packed, uint32_t size);
  CUresult (*copy)(const struct copy *copy);  // as copy_resolve leaves it (copies/copy.h)
  CUresult (*fill)(uint64_t address, uint64_t pitch, uint32_t value, uint32_t unit,
                   uint64_t elements, uint64_t height, uint64_t stream);
  CUresult (*host)(uint64_t stream, CUhostFn function, void *data);
  CUresult (*values)(uint64_t stream, const struct wire_value *values, unsigned count);
  CUresult (*allocate)(uint64_t stream, int device, uint64_t size, CUdeviceptr *address);
  CUresult (*free)(uint64_t stream, uint64_t address);
  CUresult (*event_record)(uint64_t event, uint64_t stream, unsigned flags);
  CUresult (*event_wait)(uint64_t stream, uint64_t event, unsigned flags);
  // To be called when a stream or an event ends, which takes its part in captures with it.
  void (*stream_ends)(uint64_t stream);
  void (*event_ends)(uint64_t event);
  // Frees memory that a launch of a graph has left allocated. No lock may be held.
  // GRAPH_MEMORY_NONE when the address is none of such memory.
  CUresult (*free_left)(uint64_t address);
};

// Set before a session begins (capture_start), and never changed.
extern const struct recorder *recorder;

// Called by the generated entry points of calls that may wait for the device, or that CUDA does not
// allow while the thread captures: CUDA_SUCCESS, or the error that the program gets.
static inline CUresult capture_admit_unsafe(void) {
  return capture_active() ? recorder->check_unsafe() : CUDA_SUCCESS;
}

// What the generated put_X call, each for the command in its name, while anything is captured.
static inline CUresult capture_cuMemsetD8Async(uint64_t dstDevice, uint32_t uc, uint64_t N,
                                               uint64_t hStream) {
  return recorder->fill(dstDevice, 0, uc, 1, N, 1, hStream);
}
static inline CUresult capture_cuMemsetD16Async(uint64_t dstDevice, uint32_t us, uint64_t N,
                                                uint64_t hStream) {
  return recorder->fill(dstDevice, 0, us, 2, N, 1, hStream);
}
static inline CUresult capture_cuMemsetD32Async(uint64_t dstDevice, uint32_t ui, uint64_t N,
                                                uint64_t hStream) {
  return recorder->fill(dstDevice, 0, ui, 4, N, 1, hStream);
}
static inline CUresult capture_cuMemsetD2D8Async(uint64_t dstDevice, uint64_t dstPitch, uint32_t uc,
                                                 uint64_t Width, uint64_t Height,
                                                 uint64_t hStream) {
  return recorder->fill(dstDevice, dstPitch, uc, 1, Width, Height, hStream);
}
static inline CUresult capture_cuMemsetD2D16Async(uint64_t dstDevice, uint64_t dstPitch,
                                                  uint32_t us, uint64_t Width, uint64_t Height,
                                                  uint64_t hStream) {
  return recorder->fill(dstDevice, dstPitch, us, 2, Width, Height, hStream);
}
static inline CUresult capture_cuMemsetD2D32Async(uint64_t dstDevice, uint64_t dstPitch,
                                                  uint32_t ui, uint64_t Width, uint64_t Height,
                                                  uint64_t hStream) {
  return recorder->fill(dstDevice, dstPitch, ui, 4, Width, Height, hStream);
}

#endif
