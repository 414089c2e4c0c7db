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

// The parameters as the kernel sees them, function->parameter_bytes of them.
CUresult launch_pack(const struct function *function, void **kernelParams, void **extra,
                     unsigned char *packed);

// The same of a launch with attributes.
CUresult launch_check_config(struct function *function, uint64_t wire, const CUlaunchConfig *config,
                             _Bool cooperative);

#endif
