// What this library has beyond the driver API, for programs that look it up by name. A library
// without it is another driver.
#pragma once

#include <stdint.h>

#include "cuda_driver.h"

extern "C" {

// Nanoseconds that workers have spent on kernels of the context (NULL: the current one) since the
// process began, all workers added up; and how many workers there are. Time in which a worker had
// no processor does not count, so an overloaded machine makes nothing longer. What is running is
// counted with a delay of a few blocks. CUDA_ERROR_NOT_SUPPORTED, whatever is asked, with the
// traits `uncounted-work` and `time-slices`.
__attribute__((visibility("default"))) CUresult softwareDeviceWorkNs(CUcontext context,
                                                                     uint64_t *ns,
                                                                     uint32_t *workers);
}
