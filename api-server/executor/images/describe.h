// What the guest is told of a kernel: its attributes, and how many of its blocks fit on a
// multiprocessor.
#pragma once

#include "base/driver.h"
#include "wire.h"

namespace outboard {

// Returns how many blocks of `threads` threads and `shared` bytes of dynamic shared memory fit on a
// multiprocessor. WIRE_OCCUPANCY_UNKNOWN where the driver does not say, or the number is too large
// for the answer. `flags` are CUoccupancy_flags.
uint8_t blocks_for(const Driver &driver, CUfunction function, int threads, size_t shared,
                   unsigned flags);

// Returns the attributes of a kernel as they are sent.
wire_description describe_function(const Driver &driver, CUfunction function);

}  // namespace outboard
