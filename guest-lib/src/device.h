// Devices as the server described them at attach.
#ifndef OUTBOARD_DEVICE_H
#define OUTBOARD_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"

#define DEVICES_MAX 8
#define DEVICE_ATTRIBUTES_MAX 256
#define DEVICE_LIMITS_MAX 16

struct device {
  unsigned lane;            // that leads to it (lane.h)
  uint32_t server_ordinal;  // what the server calls it
  char name[256];
  CUuuid uuid;
  uint64_t total_memory;
  unsigned attribute_count;
  int attributes[DEVICE_ATTRIBUTES_MAX];  // 0 from attribute_count on
  unsigned limit_count;
  uint64_t limits[DEVICE_LIMITS_MAX];
  int least_priority;
  int greatest_priority;
  char pci_bus_id[32];
};

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
int device_attribute(int ordinal, CUdevice_attribute attribute);

#endif
