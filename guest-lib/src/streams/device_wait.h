// Streams that wait for events of another device. The two devices have a session each, and no
// server knows of the other: the stream waits for a step (host_function.h) that is taken in this
// process.
#ifndef OUTBOARD_DEVICE_WAIT_H
#define OUTBOARD_DEVICE_WAIT_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

// Makes what comes next on `stream`, which is of the thread's session, wait for the work that
// `event`, which is of the session `other`, has recorded. The errors are those of putting work on a
// stream.
CUresult device_wait(uint64_t stream, struct session *other, uint64_t event);

#endif
