// A launch before it is sent: its shape, checked as the driver would; its parameters in one piece;
// its attributes as they travel.
#ifndef OUTBOARD_LAUNCH_H
#define OUTBOARD_LAUNCH_H

#include "cuda_driver.h"
#include "kernels/module.h"

#define LAUNCH_PARAMETERS_MAX (32u << 10)

struct launch_shape {
  unsigned grid[3], block[3];
  unsigned shared;
  unsigned cluster[3];  // zeros: not asked for
  _Bool cooperative;
};

// Copies the parameters of a launch into `packed` as the kernel sees them:
// function->parameter_bytes bytes, for which there is room. CUDA_ERROR_INVALID_VALUE when the
// program gave both forms, or neither though the kernel has parameters, or too few bytes.
CUresult launch_pack(const struct function *function, void **kernelParams, void **extra,
                     unsigned char *packed);

// Checks a launch without making it, its attributes included: launch_attributes_read and
// launch_check (internal.h), with their errors. `function_on_wire` is the server's handle
// of the function.
CUresult launch_check_config(struct function *function, uint64_t function_on_wire,
                             const CUlaunchConfig *config, _Bool cooperative);

#endif
