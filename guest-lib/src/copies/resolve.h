// What a copy's ends are, who has them, and whether it may be made.
#ifndef OUTBOARD_RESOLVE_H
#define OUTBOARD_RESOLVE_H

#include "copies/copy.h"

// Checks a copy and finds out what struct copy says, in the order in which CUDA tells of errors. An
// empty copy is always in order. Of what goes across devices nothing but the shape is checked; the
// ends are left as they were given, and the rest is that way's (cross_device.h). Otherwise it is
// located afterwards. CUDA_ERROR_INVALID_VALUE when the copy cannot be, or what memory_check
// (memory/memory_range.h) says.
CUresult copy_resolve(struct copy *copy);

// Does the same for a copy that is known to be of the thread's session as a whole: finds out for
// each end in memory whether it is the host's or the device's, and that a range of the device's is
// allocated and may be used. An end's place is BOX_HOST, BOX_DEVICE or BOX_ARRAY from then on, and
// registered memory that the device reaches has the address that the device has it at.
CUresult copy_locate(struct copy *copy);

// Where the program has several devices, each has a session (session.h).
//
// Returns the session whose device has the memory or array at this end. NULL stands for the
// host: for its own memory, for pinned memory that a device reaches, and for what is not allocated.
struct session *holder_of(const struct box_end *end);
// Whether a session's device reaches an end that `holder` has.
_Bool holder_lends(struct session *holder, const struct box_end *end, struct session *session);

#endif
