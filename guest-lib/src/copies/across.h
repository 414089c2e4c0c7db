// Copies between the memory of two devices (lane.h), and fills of another's memory. No server knows
// of the other: what is copied passes through this process.
#ifndef OUTBOARD_ACROSS_H
#define OUTBOARD_ACROSS_H

#include "copies/box.h"
#include "cuda_driver.h"
#include "session/lane.h"

// Whose device's memory is there, or LANE_ANY: the host's, also where a device reaches it.
unsigned across_lane_of(const struct box_end *end);

// A copy on a stream of the thread's lane, whose result is put in *result. False, and nothing is
// done, when either end is the host's or of that lane; or when its device reaches both (peer.h),
// and the order is that of the stream alone.
_Bool across_copy(const struct box_end *to, const struct box_end *from, const struct box *box,
                  uint64_t stream, _Bool async, CUresult *result);
// The same of bytes in a row.
_Bool across_copy_line(uint64_t to, uint64_t from, uint64_t bytes, uint64_t stream, _Bool async,
                       CUresult *result);

// Before a call that fills memory on a stream, which may be of another device than the memory: then
// it is filled there, on that device's legacy stream, while this one waits; and after one that was
// *away.
CUresult across_go(uint64_t address, uint64_t *stream, _Bool *away);
CUresult across_return(CUresult result);

#endif
