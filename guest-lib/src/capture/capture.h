// Captures: sequences of work that go into a graph in place of being sent.
//
// What puts work on a stream asks here: whether it may, before its parameters are looked at
// (stream_for_work), and whether the work becomes a node, once they are checked. capture_active()
// is one load, and false wherever nothing is captured. Calls that put one command (`captured: true`
// in proto/api) do so in the generated put_X; the others by hand.
#ifndef OUTBOARD_CAPTURE_H
#define OUTBOARD_CAPTURE_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda_driver.h"

// The stream is not captured: send the command.
#define CAPTURE_NONE ((CUresult)-1)

extern _Atomic unsigned capture_count;        // captures under way
extern _Atomic unsigned capture_event_count;  // events last recorded in a capture
static inline _Bool capture_active(void) {
  return atomic_load_explicit(&capture_count, memory_order_relaxed) != 0;
}
static inline _Bool capture_has_events(void) {
  return atomic_load_explicit(&capture_event_count, memory_order_relaxed) != 0;
}

struct box;
struct box_end;
struct task;
struct wire_value;

// Whether a stream may be used, as far as captures are concerned; a call that captures forbid
// invalidates them.
CUresult capture_check_unsafe(void);           // for calls that may wait for the device
CUresult capture_check_wait(uint64_t stream);  // waits for a stream, or asks whether it is done
CUresult capture_check_context_wait(void);     // waits for the current context
CUresult capture_check_legacy_wait(uint64_t context);  // for the legacy stream of a context
CUresult capture_check_event(uint64_t event);          // asks about an event
CUresult capture_check_work(uint64_t stream);          // puts work on a stream
CUresult capture_look(uint64_t stream);  // the same: CAPTURE_NONE when it is not captured
static inline CUresult capture_admit_unsafe(void) {
  return capture_active() ? capture_check_unsafe() : CUDA_SUCCESS;
}

// Each becomes a node when its stream is captured; CAPTURE_NONE otherwise. Streams are as on the
// wire.
CUresult capture_task(uint64_t stream, CUresult made, struct task *task);
CUresult capture_launch(uint64_t stream, const void *function, const CUlaunchConfig *config,
                        _Bool cooperative, const void *packed, uint32_t size);
CUresult capture_box(uint64_t stream, const struct box_end *to, const struct box_end *from,
                     const struct box *box);
// The same for bytes in a row; either end may be the host's.
CUresult capture_bytes(uint64_t stream, uint64_t to, uint64_t from, uint64_t bytes);
CUresult capture_host(uint64_t stream, CUhostFn function, void *data);
CUresult capture_values(uint64_t stream, const struct wire_value *values, unsigned count);
CUresult capture_allocate(uint64_t stream, int device, uint64_t size, CUdeviceptr *address);
CUresult capture_free(uint64_t stream, uint64_t address);
CUresult capture_record(uint64_t event, uint64_t stream, unsigned flags);
CUresult capture_event_wait(uint64_t stream, uint64_t event, unsigned flags);

// Those of generated commands.
CUresult capture_cuMemcpyDtoDAsync_v2(uint64_t dstDevice, uint64_t srcDevice, uint64_t ByteCount,
                                      uint64_t hStream);
CUresult capture_cuMemsetD8Async(uint64_t dstDevice, uint32_t uc, uint64_t N, uint64_t hStream);
CUresult capture_cuMemsetD16Async(uint64_t dstDevice, uint32_t us, uint64_t N, uint64_t hStream);
CUresult capture_cuMemsetD32Async(uint64_t dstDevice, uint32_t ui, uint64_t N, uint64_t hStream);
CUresult capture_cuMemsetD2D8Async(uint64_t dstDevice, uint64_t dstPitch, uint32_t uc,
                                   uint64_t Width, uint64_t Height, uint64_t hStream);
CUresult capture_cuMemsetD2D16Async(uint64_t dstDevice, uint64_t dstPitch, uint32_t us,
                                    uint64_t Width, uint64_t Height, uint64_t hStream);
CUresult capture_cuMemsetD2D32Async(uint64_t dstDevice, uint64_t dstPitch, uint32_t ui,
                                    uint64_t Width, uint64_t Height, uint64_t hStream);

// What ends takes its part in captures with it.
void capture_stream_ends(uint64_t stream);
void capture_event_ends(uint64_t event);

#endif
