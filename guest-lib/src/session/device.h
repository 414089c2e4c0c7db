// The devices of the program.
#ifndef OUTBOARD_DEVICE_H
#define OUTBOARD_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "setup/device_description.h"

// Takes the server's devices, in the order and choice of CUDA_VISIBLE_DEVICES (NULL: all).
void device_start(const struct device *all, int count, const char *visible,
                  uint32_t driver_version);

int device_count(void);
_Bool device_exists(int ordinal);
const struct device *device_get(int ordinal);
int device_driver_version(void);
int device_clamp_priority(int priority);
void device_priorities(int ordinal, int *least, int *greatest);
CUresult device_limit(int ordinal, CUlimit limit, size_t *value);
void device_set_limit(int ordinal, CUlimit limit, size_t value);
// The context was reset: they are what they were.
void device_forget_limits(int ordinal);
// Bytes of the device's memory that limits take above what they took at first, were `limit` at
// `value`: by the rule that servers count by (api-server/executor/commands/limits.cc).
uint64_t device_raised(int ordinal, CUlimit limit, size_t value);
// The way from one to another of the program's, where kernels can be let into its memory; or NULL.
const struct peer_device *device_peer(int device, int peer);
int device_attribute(int ordinal, CUdevice_attribute attribute);

#endif
