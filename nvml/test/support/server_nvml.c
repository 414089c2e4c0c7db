// The NVML of a GPU machine, for tests of the server's side: one device, some of the functions.
#include <stdio.h>
#include <string.h>

#include "nvml_api.h"

#define GPU ((nvmlDevice_t)0x1000)

static int started;

nvmlReturn_t nvmlInit_v2(void) {
  started++;
  return started == 1 ? NVML_SUCCESS : NVML_ERROR_ALREADY_INITIALIZED;
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char *uuid, nvmlDevice_t *device) {
  if (!started) return NVML_ERROR_UNINITIALIZED;
  if (strcmp(uuid, "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f") != 0) return NVML_ERROR_NOT_FOUND;
  *device = GPU;
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
  if (device != GPU || sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  *temp = 41;
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
