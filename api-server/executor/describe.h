// What a kernel's attributes are and how many of its blocks fit, as the guest is told.
#pragma once

#include "driver.h"
#include "wire.h"

namespace outboard {

wire_description describe_function(const Driver &driver, CUfunction function);

}  // namespace outboard
