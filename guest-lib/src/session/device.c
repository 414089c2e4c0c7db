#include "session/device.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "abi_version.h"
#include "abi_visible.h"
#include "guest_calls.h"
#include "session/device_claims.h"
#include "setup/log.h"
#include "setup/version.h"

static struct device devices[DEVICES_MAX];
static int count;
static int driver_version;

int device_count(void) { return count; }
_Bool device_exists(int ordinal) { return ordinal >= 0 && ordinal < count; }
const struct device *device_get(int ordinal) { return &devices[ordinal]; }

int device_server_version(void) { return driver_version ? driver_version : ABI_DRIVER_VERSION; }

// cudart asks before cuInit, and has its driver prove afterwards that it is of the version that was
// told. So what was told stays, also where a session comes to be on another server.
static _Atomic int told;

int device_driver_version(void) {
  const int before = atomic_load(&told);
  if (before) return before;
  const int server = device_server_version();
  return server < ABI_DRIVER_VERSION ? server : ABI_DRIVER_VERSION;
}

int device_tell_version(void) {
  int none = 0;
  int version = device_driver_version();
  // Nothing was told, and no session has begun.
  if (!atomic_load(&told) && !driver_version) {
    const int asked = version_of_servers();
    if (asked && asked < version) version = asked;
  }
  return atomic_compare_exchange_strong(&told, &none, version) ? version : none;
}

static void choose(const struct device *all, int all_count, const char *visible) {
  count = 0;
  if (!visible) {
    memcpy(devices, all, sizeof *all * (size_t)all_count);
    count = all_count;
    return;
  }
  struct abi_visible_device named[DEVICES_MAX];
  int chosen[DEVICES_MAX];
  for (int i = 0; i < all_count; i++) {
    const unsigned char *u = (const unsigned char *)all[i].uuid.bytes;
    named[i] = (struct abi_visible_device){.number = i};
    snprintf(named[i].name, sizeof named[i].name,
             "%s-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x",
             all[i].instance ? "MIG" : "GPU", u[0], u[1], u[2], u[3], u[4], u[5], u[6], u[7], u[8],
             u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
  }
  const struct abi_visible_list list = abi_visible_read(visible, named, all_count, chosen);
  char why[512];
  if (abi_visible_explain(&list, visible, why, sizeof why)) log_warn("%s", why);
  for (; count < list.count; count++) devices[count] = all[chosen[count]];
}

void device_start(const struct device *all, int all_count, const char *visible,
                  uint32_t server_driver_version) {
  driver_version = (int)server_driver_version;
  choose(all, all_count, visible);
  for (int i = 0; i < count; i++) {
    device_claims_restrict(&devices[i]);
    memcpy(devices[i].first_limits, devices[i].limits, sizeof devices[i].limits);
  }
}

// What tells one of several equal devices from the others.
static _Bool tells_apart(unsigned attribute) {
  switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DEVICE_ID:
    case CU_DEVICE_ATTRIBUTE_PCI_DOMAIN_ID:
    case CU_DEVICE_ATTRIBUTE_MULTI_GPU_BOARD_GROUP_ID:
    case CU_DEVICE_ATTRIBUTE_NUMA_ID:
      return 1;
    default:
      return 0;
  }
}

_Bool device_is_alike(int ordinal, const struct device *all, int all_count) {
  const struct device *known = &devices[ordinal];
  if (known->server_ordinal >= (unsigned)all_count) return 0;
  struct device *other = malloc(sizeof *other);
  if (!other) return 0;
  *other = all[known->server_ordinal];
  device_claims_restrict(other);
  _Bool alike = strcmp(known->name, other->name) == 0 &&
                known->attribute_count == other->attribute_count &&
                known->limit_count == other->limit_count &&
                memcmp(known->first_limits, other->limits, sizeof other->limits) == 0;
  for (unsigned i = 0; alike && i < known->attribute_count; i++)
    alike = tells_apart(i) || known->attributes[i] == other->attributes[i];
  free(other);
  return alike;
}

int device_clamp_priority(int priority) {
  if (!count) return 0;
  if (priority > devices[0].least_priority) return devices[0].least_priority;
  if (priority < devices[0].greatest_priority) return devices[0].greatest_priority;
  return priority;
}

void device_priorities(int ordinal, int *least, int *greatest) {
  if (least) *least = devices[ordinal].least_priority;
  if (greatest) *greatest = devices[ordinal].greatest_priority;
}

CUresult device_limit(int ordinal, CUlimit limit, size_t *value) {
  if ((unsigned)limit >= devices[ordinal].limit_count ||
      devices[ordinal].limits[limit] == UINT64_MAX)
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = devices[ordinal].limits[limit];
  return CUDA_SUCCESS;
}

void device_set_limit(int ordinal, CUlimit limit, size_t value) {
  if ((unsigned)limit < devices[ordinal].limit_count) devices[ordinal].limits[limit] = value;
}

void device_forget_limits(int ordinal) {
  memcpy(devices[ordinal].limits, devices[ordinal].first_limits, sizeof devices[ordinal].limits);
}

uint64_t device_raised(int ordinal, CUlimit limit, size_t value) {
  const struct device *device = &devices[ordinal];
  uint64_t threads =
      (uint64_t)device_attribute(ordinal, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT) *
      (uint64_t)device_attribute(ordinal, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR);
  uint64_t sum = 0;
  for (unsigned each = 0; each < device->limit_count; each++) {
    uint64_t before = device->first_limits[each], bytes;
    uint64_t wanted = each == (unsigned)limit ? value : device->limits[each];
    if (before == UINT64_MAX || wanted <= before) continue;
    if (__builtin_mul_overflow(wanted - before, wire_limit_bytes(each, threads), &bytes) ||
        __builtin_add_overflow(sum, bytes, &sum))
      return UINT64_MAX;
  }
  return sum;
}

int device_attribute(int ordinal, CUdevice_attribute attribute) {
  return (unsigned)attribute < devices[ordinal].attribute_count
             ? devices[ordinal].attributes[attribute]
             : 0;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuDeviceGetCount(int *out) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = count;
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceGet(CUdevice *device, int ordinal) {
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceGetName(char *name, int len, CUdevice dev) {
  if (!name || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(name, (size_t)len, "%s", devices[dev].name);
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice dev) {
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  *uuid = devices[dev].uuid;
  return CUDA_SUCCESS;
}

// From before there were instances: it is the GPU's.
CUresult guest_cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  *uuid = devices[dev].gpu_uuid;
  return CUDA_SUCCESS;
}

// A LUID is a thing of Windows.
CUresult guest_cuDeviceGetLuid(char *luid, unsigned int *deviceNodeMask, CUdevice dev) {
  (void)luid, (void)deviceNodeMask;
  return device_exists(dev) ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_DEVICE;
}

CUresult guest_cuDeviceTotalMem_v2(size_t *bytes, CUdevice dev) {
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  *bytes = devices[dev].total_memory;
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceGetAttribute(int *pi, CUdevice_attribute attrib, CUdevice dev) {
  if (!pi) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (attrib < 1 || (unsigned)attrib >= devices[dev].attribute_count)
    return CUDA_ERROR_INVALID_VALUE;
  *pi = devices[dev].attributes[attrib];
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  *major = device_attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
  *minor = device_attribute(dev, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceGetProperties(CUdevprop *prop, CUdevice dev) {
  if (!prop) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  prop->maxThreadsPerBlock = device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; i++) {
    prop->maxThreadsDim[i] = device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i);
    prop->maxGridSize[i] = device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i);
  }
  prop->sharedMemPerBlock = device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  prop->totalConstantMemory = device_attribute(dev, CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  prop->SIMDWidth = device_attribute(dev, CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  prop->memPitch = device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  prop->regsPerBlock = device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  prop->clockRate = device_attribute(dev, CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  prop->textureAlign = device_attribute(dev, CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceGetPCIBusId(char *pciBusId, int len, CUdevice dev) {
  if (!pciBusId || len <= 0) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  snprintf(pciBusId, (size_t)len, "%s", devices[dev].pci_bus_id);
  return CUDA_SUCCESS;
}

struct pci_place {
  unsigned domain, bus, slot, function;
};

// [domain:]bus:device[.function], in hexadecimal.
static _Bool pci_place(const char *text, struct pci_place *place) {
  *place = (struct pci_place){0};
  if (sscanf(text, "%x:%x:%x.%x", &place->domain, &place->bus, &place->slot, &place->function) >= 3)
    return 1;
  *place = (struct pci_place){0};
  return sscanf(text, "%x:%x.%x", &place->bus, &place->slot, &place->function) >= 2;
}

CUresult guest_cuDeviceGetByPCIBusId(CUdevice *dev, const char *pciBusId) {
  struct pci_place wanted, has;
  if (!dev || !pciBusId || !pci_place(pciBusId, &wanted)) return CUDA_ERROR_INVALID_VALUE;
  for (int i = 0; i < count; i++) {
    if (!pci_place(devices[i].pci_bus_id, &has) || memcmp(&has, &wanted, sizeof has) != 0) continue;
    *dev = i;
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_DEVICE;
}

const struct peer_device *device_peer(int device, int peer) {
  if (device == peer || devices[device].server != devices[peer].server) return NULL;
  for (unsigned i = 0; i < devices[device].peer_count; i++)
    if (!memcmp(&devices[device].peers[i].uuid, &devices[peer].uuid, sizeof(CUuuid)))
      return &devices[device].peers[i];
  return NULL;
}

CUresult guest_cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev) {
  if (!canAccessPeer) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev) || !device_exists(peerDev)) return CUDA_ERROR_INVALID_DEVICE;
  *canAccessPeer = device_peer(dev, peerDev) != NULL;
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice srcDevice,
                                       CUdevice dstDevice) {
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(srcDevice) || !device_exists(dstDevice) || srcDevice == dstDevice)
    return CUDA_ERROR_INVALID_DEVICE;
  const struct peer_device *peer = device_peer(srcDevice, dstDevice);
  *value = 0;
  switch (attrib) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      if (peer) *value = peer->performance_rank;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
      *value = peer != NULL;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = peer && peer->native_atomics;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      return CUDA_SUCCESS;  // arrays are not lent
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}
