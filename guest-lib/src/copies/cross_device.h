// Copies between the memory of two devices of the program, and fills of another device's memory.
// The devices have a session each (session.h), and no server knows of the other: what is copied
// passes through this process, unless one of the devices reaches both ends (memory/peer.h).
#ifndef OUTBOARD_CROSS_DEVICE_H
#define OUTBOARD_CROSS_DEVICE_H

#include "copies/box.h"
#include "cuda_driver.h"
#include "session/session.h"

// Returns the session whose device has the memory or array at this end. SESSION_ANY stands for the
// host: for its own memory, for pinned memory that a device reaches, and for what is not allocated.
unsigned copy_end_session(const struct box_end *end);

// Makes a copy on a stream of the thread's session if another session has an end of it, puts its
// result in *result and returns true. Returns false, with nothing done, when each end is the host's
// or this session's; and when this session's device reaches both ends and the copy is asynchronous
// and not on the legacy stream, so that it can be made like any other copy. The ends need not be
// located; the box must not be empty.
_Bool cross_device_copy(const struct box_end *to, const struct box_end *from, const struct box *box,
                        uint64_t stream, _Bool async, CUresult *result);
// The same for bytes in a row, at addresses of the host or of any device. False for no bytes.
_Bool cross_device_copy_line(uint64_t to, uint64_t from, uint64_t bytes, uint64_t stream,
                             _Bool async, CUresult *result);

// To be called before memory at `address` is filled on *stream. Where that memory is another
// device's, which this one does not reach, it waits for *stream, brings the thread into the
// memory's session, sets *stream to that device's legacy stream and *away to true; the caller then
// fills, and calls cross_device_filled with the result. Where *stream is captured, and in all other
// cases, nothing changes: the caller sets *away to false beforehand.
CUresult cross_device_fill(uint64_t address, uint64_t *stream, _Bool *away);
// Ends a fill that was *away: waits for it, unless `result` is an error already.
CUresult cross_device_filled(CUresult result);

#endif
