// A device as the server described it at attach.
#ifndef OUTBOARD_DEVICE_DESCRIPTION_H
#define OUTBOARD_DEVICE_DESCRIPTION_H

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
  struct session *session;  // that leads to it (session.h)
  unsigned server;          // number of the first session that leads to the same server
  uint32_t server_ordinal;  // what the server calls it
  char name[256];
  CUuuid uuid;
  _Bool instance;   // of a GPU in MIG mode
  CUuuid gpu_uuid;  // of that GPU, else its own
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

#endif
