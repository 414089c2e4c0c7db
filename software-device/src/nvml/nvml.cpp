// What a server of the software device asks NVML of NVIDIA's driver for: which GPUs the machine
// has, which of them are in MIG mode, and their instances, whatever a process of CUDA would see. It
// is a library of its own, under a name by which no program looks for NVML, and has nothing else of
// that. The names, numbers and forms of the functions are NVML's.
#include <cstring>
#include <string>
#include <vector>

#include "core/settings.h"
#include "core/uuid.h"

namespace {

using namespace softdev::driver;

enum Return {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotFound = 6,
  kInsufficientSize = 7,
  kUnknown = 999
};
constexpr unsigned kMostInstances = 7;

struct Handle {
  std::string uuid;
  bool mig = false;
  std::vector<Handle> instances;
};

std::vector<Handle> gpus;
bool started = false;

std::vector<Handle> read_gpus(const std::vector<DeviceSettings> &devices) {
  std::vector<Handle> all;
  for (int i = 0; i < static_cast<int>(devices.size()); i++) {
    const DeviceSettings &device = devices[static_cast<size_t>(i)];
    Handle gpu{uuid_text("GPU", gpu_uuid(i)), device.mig, {}};
    for (int instance = 0; instance < static_cast<int>(device.instances.size()); instance++)
      gpu.instances.push_back({uuid_text("MIG", instance_uuid(i, instance)), false, {}});
    all.push_back(std::move(gpu));
  }
  return all;
}

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default"))) Return

// Reads the settings anew each time.
EXPORT nvmlInit_v2() {
  Settings settings;
  std::string problem;
  if (!read_settings(&settings, &problem)) return kUnknown;  // of which cuInit tells
  gpus = read_gpus(settings.devices);
  started = true;
  return kSuccess;
}

EXPORT nvmlDeviceGetCount_v2(unsigned *count) {
  if (!started) return kUninitialized;
  *count = static_cast<unsigned>(gpus.size());
  return kSuccess;
}

EXPORT nvmlDeviceGetHandleByIndex_v2(unsigned index, Handle **device) {
  if (!started) return kUninitialized;
  if (index >= gpus.size()) return kInvalidArgument;
  *device = &gpus[index];
  return kSuccess;
}

EXPORT nvmlDeviceGetUUID(const Handle *device, char *uuid, unsigned length) {
  if (device->uuid.size() >= length) return kInsufficientSize;
  memcpy(uuid, device->uuid.c_str(), device->uuid.size() + 1);
  return kSuccess;
}

EXPORT nvmlDeviceGetMigMode(const Handle *device, unsigned *current, unsigned *pending) {
  *current = *pending = device->mig;
  return kSuccess;
}

EXPORT nvmlDeviceGetMaxMigDeviceCount(const Handle *device, unsigned *count) {
  *count = device->mig ? kMostInstances : 0;
  return kSuccess;
}

EXPORT nvmlDeviceGetMigDeviceHandleByIndex(Handle *device, unsigned index, Handle **instance) {
  if (index >= device->instances.size()) return kNotFound;
  *instance = &device->instances[index];
  return kSuccess;
}
