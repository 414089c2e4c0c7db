// Our libcuda.so.1 in this process, which has the session.
#ifndef LIBRARIES_DOOR_H
#define LIBRARIES_DOOR_H

#include "cuda_driver.h"
#include "driver/companion.h"

// Returns what it does for us; NULL, and the log says so once, where the process has another driver
// or none.
const struct companion_table *door(void);
// Sees to it that the calling thread has a current context, as the CUDA runtime does: that of the
// first device where it has none. Returns the driver's error.
CUresult door_context(void);
// Whether this process was forked off one that has been here: nothing of it can be used.
_Bool door_is_child(void);
// Says, also to the person in front of `outboard run`, that the server has no library, and what to
// do.
void door_say_unserved(void);
// A copy of rows by our driver, on the stream where `async`, and else as the CUDA runtime makes
// one.
CUresult door_copy(const CUDA_MEMCPY2D *copy, CUstream stream, _Bool async);
// Of the calling thread's current context, which it gets where it has none (remote_era in
// companion.h).
uint64_t door_era(void);
// To be called where something is done with a descriptor. Does nothing but while it is measured
// what that saves (remote_descriptor in companion.h).
void door_descriptor(void);
// Says once that calls are not served in a stream that is captured.
void door_say_captured(const char *function);

#endif
