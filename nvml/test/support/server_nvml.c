// The NVML of a GPU machine, for tests of the server's side, with some of the functions: a GPU, and
// one in MIG mode with two instances.
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "nvml_api.h"

#define GPU ((nvmlDevice_t)0x1000)
#define PARTED ((nvmlDevice_t)0x2000)
// The second of its places for instances is free.
#define PLACES 3
#define INSTANCE(place) ((nvmlDevice_t)(0x2001 + (uintptr_t)(place)))

static int started;

nvmlReturn_t nvmlInit_v2(void) {
  started++;
  return started == 1 ? NVML_SUCCESS : NVML_ERROR_ALREADY_INITIALIZED;
}

static const struct {
  nvmlDevice_t device;
  const char *uuid;
} known[] = {{GPU, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"},
             {PARTED, "GPU-10111213-1415-1617-1819-1a1b1c1d1e1f"},
             {INSTANCE(0), "MIG-20212223-2425-2627-2829-2a2b2c2d2e2f"},
             {INSTANCE(2), "MIG-30313233-3435-3637-3839-3a3b3c3d3e3f"}};
#define KNOWN (sizeof known / sizeof *known)

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  if (!started) return NVML_ERROR_UNINITIALIZED;
  for (unsigned i = 0; i < KNOWN; i++) {
    if (strcmp(uuid, known[i].uuid) != 0) continue;
    *device = known[i].device;
    return NVML_SUCCESS;
  }
  return NVML_ERROR_NOT_FOUND;
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
  for (unsigned i = 0; i < KNOWN; i++) {
    if (device != known[i].device) continue;
    snprintf(uuid, length, "%s", known[i].uuid);
    return NVML_SUCCESS;
  }
  return NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *deviceCount) {
  *deviceCount = 2;
  return started ? NVML_SUCCESS : NVML_ERROR_UNINITIALIZED;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
  if (index > 1) return NVML_ERROR_INVALID_ARGUMENT;
  *device = index == 0 ? GPU : PARTED;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *currentMode,
                                  unsigned int *pendingMode) {
  *currentMode = *pendingMode = NVML_DEVICE_MIG_ENABLE;
  return device == PARTED ? NVML_SUCCESS : NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
  *count = device == PARTED ? PLACES : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t *migDevice) {
  if (device != PARTED || index >= PLACES) return NVML_ERROR_INVALID_ARGUMENT;
  if (index == 1) return NVML_ERROR_NOT_FOUND;
  *migDevice = INSTANCE(index);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(nvmlDevice_t migDevice,
                                                          nvmlDevice_t *device) {
  if (migDevice != INSTANCE(0) && migDevice != INSTANCE(2)) return NVML_ERROR_INVALID_ARGUMENT;
  *device = PARTED;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
  snprintf(version, length, "580.65.06");
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetNVMLVersion(char *version, unsigned int length) {
  snprintf(version, length, "13.580.65.06");
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensorType,
                                      unsigned int *temp) {
  if (sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  if (device != GPU && device != PARTED) return NVML_ERROR_NOT_SUPPORTED;
  *temp = device == GPU ? 41 : 55;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperatureThreshold(nvmlDevice_t device,
                                               nvmlTemperatureThresholds_t thresholdType,
                                               unsigned int *temp) {
  (void)device;
  *temp = thresholdType == NVML_TEMPERATURE_THRESHOLD_SHUTDOWN ? 92 : 87;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *power) {
  (void)device;
  *power = 123456;
  return NVML_SUCCESS;
}

// A server's card has none.
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned int *speed) {
  (void)device;
  *speed = 99;
  return NVML_ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetBrand(nvmlDevice_t device, nvmlBrandType_t *type) {
  (void)device;
  *type = NVML_BRAND_NVIDIA;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPciInfo_v3(nvmlDevice_t device, nvmlPciInfo_t *pci) {
  (void)device;
  memset(pci, 0, sizeof *pci);
  pci->pciDeviceId = 0x233510de;
  pci->pciSubSystemId = 0x18be10de;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                    unsigned int *clock) {
  (void)device;
  *clock = 1000 + type;
  return type == NVML_CLOCK_VIDEO ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}
