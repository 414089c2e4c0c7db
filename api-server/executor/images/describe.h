// What a kernel's attributes are and how many of its blocks fit, as the guest is told.
#pragma once

#include "base/driver.h"
#include "wire.h"

namespace outboard {

// WIRE_OCCUPANCY_UNKNOWN where the driver does not say, or it is too many to be told.
uint8_t blocks_for(const Driver &driver, CUfunction function, int threads, size_t shared,
                   unsigned flags);

wire_description describe_function(const Driver &driver, CUfunction function);

}  // namespace outboard
