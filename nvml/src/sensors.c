// What the GPU server's own NVML or driver says of the device, where there is one.
#include "nvml_calls.h"

static nvmlReturn_t give(_Bool known, unsigned value, unsigned int *out) {
  if (!out) return NVML_ERROR_INVALID_ARGUMENT;
  if (!known) return NVML_ERROR_NOT_SUPPORTED;
  *out = value;
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetTemperature(const struct shown_device *device,
                                             nvmlTemperatureSensors_t sensorType,
                                             unsigned int *temp) {
  if (sensorType != NVML_TEMPERATURE_GPU) return NVML_ERROR_INVALID_ARGUMENT;
  return give(device->state.has_temperature, device->state.temperature, temp);
}

nvmlReturn_t answer_nvmlDeviceGetTemperatureV(const struct shown_device *device,
                                              nvmlTemperature_t *temperature) {
  if (!temperature) return NVML_ERROR_INVALID_ARGUMENT;
  if (temperature->version != nvmlTemperature_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  unsigned degrees;
  nvmlReturn_t result = answer_nvmlDeviceGetTemperature(device, temperature->sensorType, &degrees);
  if (!result) temperature->temperature = (int)degrees;
  return result;
}

nvmlReturn_t answer_nvmlDeviceGetTemperatureThreshold(const struct shown_device *device,
                                                      nvmlTemperatureThresholds_t thresholdType,
                                                      unsigned int *temp) {
  const outboard_DeviceState *state = &device->state;
  switch (thresholdType) {
    case NVML_TEMPERATURE_THRESHOLD_SLOWDOWN:
      return give(state->has_temperature_slowdown, state->temperature_slowdown, temp);
    case NVML_TEMPERATURE_THRESHOLD_SHUTDOWN:
      return give(state->has_temperature_shutdown, state->temperature_shutdown, temp);
    default:
      return thresholdType < NVML_TEMPERATURE_THRESHOLD_COUNT ? NVML_ERROR_NOT_SUPPORTED
                                                              : NVML_ERROR_INVALID_ARGUMENT;
  }
}

static nvmlReturn_t give_clock(const uint32_t *clocks, unsigned count, nvmlClockType_t type,
                               unsigned int *clock) {
  if ((unsigned)type >= NVML_CLOCK_COUNT) return NVML_ERROR_INVALID_ARGUMENT;
  _Bool known = (unsigned)type < count && clocks[type];
  return give(known, known ? clocks[type] : 0, clock);
}

nvmlReturn_t answer_nvmlDeviceGetClockInfo(const struct shown_device *device, nvmlClockType_t type,
                                           unsigned int *clock) {
  return give_clock(device->state.clocks, device->state.clocks_count, type, clock);
}

nvmlReturn_t answer_nvmlDeviceGetMaxClockInfo(const struct shown_device *device,
                                              nvmlClockType_t type, unsigned int *clock) {
  return give_clock(device->state.max_clocks, device->state.max_clocks_count, type, clock);
}
