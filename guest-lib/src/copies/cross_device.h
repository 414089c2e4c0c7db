// Copies between the memory of two devices of the program, and fills of another device's memory.
// The devices have a session each (session.h), and no server knows of the other: what is copied
// passes through this process, unless one of the devices reaches both ends (memory/peer.h).
#ifndef OUTBOARD_CROSS_DEVICE_H
#define OUTBOARD_CROSS_DEVICE_H

#include "copies/copy.h"
#include "cuda_driver.h"

// Makes a copy that goes across, on a stream of the thread's session that is not captured
// (resolve.h). When it returns, all is where it goes; or the stream waits until it is, where the
// copy is asynchronous, not on the legacy stream, and neither of pageable memory nor of pinned
// memory that a device reaches.
CUresult cross_device_copy(const struct copy *copy);

// To be called before memory at `address` is filled on *stream. Where that memory is another
// device's, which this one does not reach, it waits for *stream, brings the thread into the
// memory's session, sets *stream to that device's legacy stream and *away to true; the caller then
// fills, and calls cross_device_filled with the result. Where *stream is captured, and in all other
// cases, nothing changes: the caller sets *away to false beforehand.
CUresult cross_device_fill(uint64_t address, uint64_t *stream, _Bool *away);
// Ends a fill that was *away: waits for it, unless `result` is an error already.
CUresult cross_device_filled(CUresult result);

#endif
