// How much of a device is used: its memory and its time.
#include "nvml_calls.h"

nvmlReturn_t answer_nvmlDeviceGetMemoryInfo(const struct shown_device *device,
                                            nvmlMemory_t *memory) {
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  const outboard_DeviceState *state = &device->state;
  memory->total = state->memory_total;
  memory->used = state->memory_used;
  memory->free = state->memory_total - state->memory_used;
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetMemoryInfo_v2(const struct shown_device *device,
                                               nvmlMemory_v2_t *memory) {
  if (!memory) return NVML_ERROR_INVALID_ARGUMENT;
  if (memory->version != nvmlMemory_v2) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  const outboard_DeviceState *state = &device->state;
  // What contexts and modules take is no part of a session's limit, so nothing of it is reserved.
  *memory = (nvmlMemory_v2_t){.version = nvmlMemory_v2,
                              .total = state->memory_total,
                              .used = state->memory_used,
                              .free = state->memory_total - state->memory_used};
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetUtilizationRates(const struct shown_device *device,
                                                  nvmlUtilization_t *utilization) {
  if (!utilization) return NVML_ERROR_INVALID_ARGUMENT;
  // The server does not measure what its only session there uses.
  if (!device->state.has_busy) return NVML_ERROR_NOT_SUPPORTED;
  *utilization = (nvmlUtilization_t){.gpu = device->state.busy};
  return NVML_SUCCESS;
}
