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

// Whether the kernel can be launched so. What the driver does not tell about a kernel (the block it
// was compiled for) is checked when the launch is carried out.
CUresult launch_check(struct function *function, uint64_t wire, const struct launch_shape *shape);

// The parameters as the kernel sees them, function->parameter_bytes of them.
CUresult launch_pack(const struct function *function, void **kernelParams, void **extra,
                     unsigned char *packed);

// The same of a launch with attributes.
CUresult launch_check_config(struct function *function, uint64_t wire, const CUlaunchConfig *config,
                             _Bool cooperative);

struct launch_attributes {
  uint32_t count;
  struct wire_launch_attribute travel[WIRE_LAUNCH_ATTRIBUTES];
  CUevent events[2];  // recorded by the launch, or NULL
};
// Reads what a program gives; `shape` learns of what concerns it.
CUresult launch_attributes_read(const CUlaunchAttribute *given, unsigned count,
                                struct launch_attributes *attributes, struct launch_shape *shape);

#endif
