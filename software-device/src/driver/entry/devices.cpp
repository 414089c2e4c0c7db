// Entry points: devices.
#include <algorithm>
#include <cstdio>
#include <cstring>

#include "entry/entry.h"

using namespace softdev::driver;

namespace {

// With the lock of the primary context held.
void end_primary(Device &device) {
  if (!device.primary->active()) return;
  device.primary->tear_down();
  device.give_back();
}

CUresult find(CUdevice ordinal, Device **device) {
  if (CUresult bad = enter()) return bad;
  *device = driver()->device(ordinal);
  if (!*device) return refuse(CUDA_ERROR_INVALID_DEVICE, "there is no device %d", ordinal);
  return CUDA_SUCCESS;
}

CUresult copy_text(const std::string &text, char *to, int room) {
  if (!to || room <= 0) return CUDA_ERROR_INVALID_VALUE;
  snprintf(to, static_cast<size_t>(room), "%s", text.c_str());
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  Device *found;
  if (CUresult bad = find(ordinal, &found)) return bad;
  if (!device) return CUDA_ERROR_INVALID_VALUE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  if (CUresult bad = enter()) return bad;
  if (!count) return CUDA_ERROR_INVALID_VALUE;
  *count = static_cast<int>(driver()->devices.size());
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int length, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  return copy_text(device->name, name, length);
}

CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  *uuid = device->uuid();
  return CUDA_SUCCESS;
}

// From before there were instances: it is the GPU's.
CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (!uuid) return CUDA_ERROR_INVALID_VALUE;
  *uuid = device->of_gpu();
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (!bytes) return CUDA_ERROR_INVALID_VALUE;
  *bytes = device->memory;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (!device->attribute(attribute, value))
    return refuse(CUDA_ERROR_INVALID_VALUE, "there is no attribute %d", attribute);
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (!major || !minor) return CUDA_ERROR_INVALID_VALUE;
  *major = device->compute_major;
  *minor = device->compute_minor;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *properties, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (!properties) return CUDA_ERROR_INVALID_VALUE;
  auto value = [&](CUdevice_attribute attribute) {
    int got = 0;
    device->attribute(attribute, &got);
    return got;
  };
  *properties = CUdevprop{};
  properties->maxThreadsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  for (int i = 0; i < 3; i++) {
    properties->maxThreadsDim[i] =
        value(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X + i));
    properties->maxGridSize[i] =
        value(static_cast<CUdevice_attribute>(CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X + i));
  }
  properties->sharedMemPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK);
  properties->totalConstantMemory = value(CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY);
  properties->SIMDWidth = value(CU_DEVICE_ATTRIBUTE_WARP_SIZE);
  properties->memPitch = value(CU_DEVICE_ATTRIBUTE_MAX_PITCH);
  properties->regsPerBlock = value(CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  properties->clockRate = value(CU_DEVICE_ATTRIBUTE_CLOCK_RATE);
  properties->textureAlign = value(CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetPCIBusId(char *id, int length, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  return copy_text(device->pci_bus_id(), id, length);
}

CUresult cuDeviceGetByPCIBusId(CUdevice *ordinal, const char *id) {
  if (CUresult bad = enter()) return bad;
  if (!ordinal || !id) return CUDA_ERROR_INVALID_VALUE;
  // [domain:]bus:device[.function]
  unsigned domain = 0, bus, slot, function = 0;
  if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &function) < 3) {
    domain = 0;
    if (sscanf(id, "%x:%x.%x", &bus, &slot, &function) < 2) return CUDA_ERROR_INVALID_VALUE;
  }
  for (const auto &device : driver()->devices)
    if (domain == 0 && slot == 0 && bus == static_cast<unsigned>(device->pci_bus())) {
      *ordinal = device->ordinal;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceCanAccessPeer(int *can, CUdevice ordinal, CUdevice peer) {
  Device *device, *other;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (CUresult bad = find(peer, &other)) return bad;
  if (!can) return CUDA_ERROR_INVALID_VALUE;
  *can = device != other;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attribute, CUdevice from,
                                 CUdevice to) {
  Device *device, *other;
  if (CUresult bad = find(from, &device)) return bad;
  if (CUresult bad = find(to, &other)) return bad;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  if (device == other) return CUDA_ERROR_INVALID_DEVICE;
  switch (attribute) {
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
      *value = 0;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
      *value = 1;
      return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
      *value = 0;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuDeviceGetExecAffinitySupport(int *supported, CUexecAffinityType type, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (!supported || static_cast<unsigned>(type) >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  *supported = 0;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  if (CUresult bad = enter()) return bad;
  if (!mode) return CUDA_ERROR_INVALID_VALUE;
  *mode = driver()->settings.eager ? CU_MODULE_EAGER_LOADING : CU_MODULE_LAZY_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (!context) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(device->primary_mutex);
  if (!device->primary->active()) {
    if (CUresult bad = device->claim()) return bad;
    device->primary->flags = device->primary_flags;
    if (!device->primary->activate()) {
      device->give_back();
      return refuse(CUDA_ERROR_OUT_OF_MEMORY, "the device has no memory for a context");
    }
  }
  device->retained++;
  *context = as_handle<CUcontext>(*device->primary);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease_v2(CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  std::lock_guard guard(device->primary_mutex);
  if (!device->retained)
    return refuse(CUDA_ERROR_INVALID_CONTEXT, "the primary context is not retained");
  if (--device->retained == 0) end_primary(*device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxReset_v2(CUdevice ordinal) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  std::lock_guard guard(device->primary_mutex);
  end_primary(*device);
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice ordinal, unsigned int *flags, int *active) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (!flags || !active) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(device->primary_mutex);
  *active = device->primary->active();
  *flags = *active ? device->primary->flags.load() : device->primary_flags;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice ordinal, unsigned int flags) {
  Device *device;
  if (CUresult bad = find(ordinal, &device)) return bad;
  if (flags & ~static_cast<unsigned>(CU_CTX_FLAGS_MASK)) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(device->primary_mutex);
  device->primary_flags = flags;
  if (device->primary->active()) device->primary->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice ordinal) {
  return cuDevicePrimaryCtxRelease_v2(ordinal);
}
CUresult cuDevicePrimaryCtxReset(CUdevice ordinal) { return cuDevicePrimaryCtxReset_v2(ordinal); }
CUresult cuDevicePrimaryCtxSetFlags(CUdevice ordinal, unsigned int flags) {
  return cuDevicePrimaryCtxSetFlags_v2(ordinal, flags);
}

}  // extern "C"
