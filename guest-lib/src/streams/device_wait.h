// Streams that wait for events of another device. No server knows of the other: they wait for steps
// that are taken in this process.
#ifndef OUTBOARD_DEVICE_WAIT_H
#define OUTBOARD_DEVICE_WAIT_H

#include <stdint.h>

#include "cuda_driver.h"

// What comes on `stream`, of the thread's session, waits for what `event`, of another, has
// recorded.
CUresult device_wait(uint64_t stream, unsigned session, uint64_t event);

#endif
