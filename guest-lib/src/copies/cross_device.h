// Copies between the memory of two devices (session.h), and fills of another's memory. No server
// knows of the other: what is copied passes through this process.
#ifndef OUTBOARD_CROSS_DEVICE_H
#define OUTBOARD_CROSS_DEVICE_H

#include "copies/box.h"
#include "cuda_driver.h"
#include "session/session.h"

// Whose device's memory is there, or SESSION_ANY: the host's, also where a device reaches it.
unsigned copy_end_session(const struct box_end *end);

// A copy on a stream of the thread's session, whose result is put in *result. False, and nothing is
// done, when either end is the host's or of that session; or when its device reaches both (peer.h),
// and the order is that of the stream alone.
_Bool cross_device_copy(const struct box_end *to, const struct box_end *from, const struct box *box,
                        uint64_t stream, _Bool async, CUresult *result);
// The same of bytes in a row.
_Bool cross_device_copy_line(uint64_t to, uint64_t from, uint64_t bytes, uint64_t stream,
                             _Bool async, CUresult *result);

// Before a call that fills memory on a stream, which may be of another device than the memory: then
// it is filled there, on that device's legacy stream, while this one waits; and after one that was
// *away.
CUresult cross_device_fill(uint64_t address, uint64_t *stream, _Bool *away);
CUresult cross_device_filled(CUresult result);

#endif
