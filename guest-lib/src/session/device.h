// Devices as the server described them at attach.
#ifndef OUTBOARD_DEVICE_H
#define OUTBOARD_DEVICE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"

#define DEVICES_MAX 8
#define DEVICE_ATTRIBUTES_MAX 256
#define DEVICE_LIMITS_MAX 16

// Another device of the same server, as the server describes the way there.
struct peer_device {
  CUuuid uuid;
  int performance_rank;
  _Bool native_atomics;
  unsigned atomic_count;
  unsigned atomics[16];  // CUatomicOperationCapability by CUatomicOperation
};

struct device {
  unsigned lane;            // that leads to it (lane.h)
  unsigned server;          // number of the first lane that leads to the same server
  uint32_t server_ordinal;  // what the server calls it
  char name[256];
  CUuuid uuid;
  uint64_t total_memory;
  unsigned attribute_count;
  int attributes[DEVICE_ATTRIBUTES_MAX];  // 0 from attribute_count on
  unsigned limit_count;
  uint64_t limits[DEVICE_LIMITS_MAX];
  uint64_t first_limits[DEVICE_LIMITS_MAX];  // before the program set any
  int least_priority;
  int greatest_priority;
  char pci_bus_id[32];
  unsigned peer_count;
  struct peer_device peers[DEVICES_MAX];
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
// The context was reset: they are what they were.
void device_forget_limits(int ordinal);
// Bytes of the device's memory that limits take above what they took at first, were `limit` at
// `value`: by the rule that servers count by (api-server/executor/limit_commands.cc).
uint64_t device_raised(int ordinal, CUlimit limit, size_t value);
// The way from one to another of the program's, where kernels can be let into its memory; or NULL.
const struct peer_device *device_peer(int device, int peer);
int device_attribute(int ordinal, CUdevice_attribute attribute);

#endif
