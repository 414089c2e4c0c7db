// Attaching: how the library gets its sessions, one for each device.
#ifndef OUTBOARD_ATTACH_H
#define OUTBOARD_ATTACH_H

#include "cuda_driver.h"

// What cuInit does. Reads the environment, connects, says in a Hello who is there and what is
// wanted, waits in the queue if it must, and takes what the Welcome brings. It may be called by any
// thread, as often as the program likes: once it has succeeded, it returns at once; after a failure
// it tries again. Returns what the program gets from cuInit (the errors are in
// guest-lib/README.md), and CUDA_ERROR_NOT_INITIALIZED in a child forked after cuInit. Why it fails
// is in the log.
CUresult attach(void);

#endif
