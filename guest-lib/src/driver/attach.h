#ifndef OUTBOARD_ATTACH_H
#define OUTBOARD_ATTACH_H

#include "cuda_driver.h"

// Connects, says who is there and what it needs, waits in the queue if it must, and takes what the
// Welcome brings. Once it has succeeded it returns at once.
CUresult attach(void);

#endif
