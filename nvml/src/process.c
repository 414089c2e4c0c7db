// The processes on a device: sessions of this tenant, numbered as their machines number them.
#include <time.h>

#include "nvml_calls.h"
#include "setup/clock.h"

// Without MIG there are no instances.
#define NO_INSTANCE 0xffffffffu

static const outboard_DeviceReport *current(void) {
  const outboard_DeviceReport *report;
  // The device was looked up a moment ago, under the same lock.
  return shown_report(&report) ? NULL : report;
}

static unsigned count_on(const outboard_DeviceReport *report, unsigned device) {
  unsigned count = 0;
  for (unsigned i = 0; i < report->processes_count; i++)
    if (report->processes[i].device == device) count++;
  return count;
}

// How many there are, into *count. NVML_SUCCESS when the caller's *count places hold them all.
static nvmlReturn_t make_room(unsigned int *count, const void *places, unsigned found) {
  unsigned room = *count;
  *count = found;
  if (found > room) return NVML_ERROR_INSUFFICIENT_SIZE;
  return found && !places ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

// Fills `infos`, of `size` bytes each: later versions only have more fields than earlier ones.
static nvmlReturn_t give_compute(const struct shown_device *device, unsigned int *count,
                                 void *infos, size_t size) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  const outboard_DeviceReport *report = current();
  if (!report) return NVML_ERROR_GPU_IS_LOST;
  nvmlReturn_t result = make_room(count, infos, count_on(report, device->index));
  if (result) return result;
  char *at = infos;
  for (unsigned i = 0; i < report->processes_count; i++) {
    const outboard_ProcessState *process = &report->processes[i];
    if (process->device != device->index) continue;
    nvmlProcessInfo_v1_t *first = (nvmlProcessInfo_v1_t *)at;
    first->pid = process->pid;
    first->usedGpuMemory = process->memory;
    if (size >= sizeof(nvmlProcessInfo_v2_t)) {
      nvmlProcessInfo_v2_t *second = (nvmlProcessInfo_v2_t *)at;
      second->gpuInstanceId = NO_INSTANCE;
      second->computeInstanceId = NO_INSTANCE;
    }
    at += size;
  }
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetComputeRunningProcesses(const struct shown_device *device,
                                                         unsigned int *infoCount,
                                                         nvmlProcessInfo_v1_t *infos) {
  return give_compute(device, infoCount, infos, sizeof *infos);
}

nvmlReturn_t answer_nvmlDeviceGetComputeRunningProcesses_v2(const struct shown_device *device,
                                                            unsigned int *infoCount,
                                                            nvmlProcessInfo_v2_t *infos) {
  return give_compute(device, infoCount, infos, sizeof *infos);
}

nvmlReturn_t answer_nvmlDeviceGetComputeRunningProcesses_v3(const struct shown_device *device,
                                                            unsigned int *infoCount,
                                                            nvmlProcessInfo_t *infos) {
  return give_compute(device, infoCount, infos, sizeof *infos);
}

static nvmlReturn_t none(unsigned int *count) {
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

#define NONE(name, type)                                                                 \
  nvmlReturn_t answer_##name(const struct shown_device *device, unsigned int *infoCount, \
                             type *infos) {                                              \
    (void)device, (void)infos;                                                           \
    return none(infoCount);                                                              \
  }
NONE(nvmlDeviceGetGraphicsRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v2, nvmlProcessInfo_v2_t)
NONE(nvmlDeviceGetGraphicsRunningProcesses_v3, nvmlProcessInfo_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses, nvmlProcessInfo_v1_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v2, nvmlProcessInfo_v2_t)
NONE(nvmlDeviceGetMPSComputeRunningProcesses_v3, nvmlProcessInfo_t)

nvmlReturn_t answer_nvmlDeviceGetRunningProcessDetailList(const struct shown_device *device,
                                                          nvmlProcessDetailList_t *plist) {
  enum { COMPUTE, GRAPHICS, MPS };
  if (!plist) return NVML_ERROR_INVALID_ARGUMENT;
  if (plist->version != nvmlProcessDetailList_v1) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (plist->mode > MPS) return NVML_ERROR_INVALID_ARGUMENT;
  if (plist->mode != COMPUTE) return none(&plist->numProcArrayEntries);
  const outboard_DeviceReport *report = current();
  if (!report) return NVML_ERROR_GPU_IS_LOST;
  nvmlReturn_t result =
      make_room(&plist->numProcArrayEntries, plist->procArray, count_on(report, device->index));
  if (result) return result;
  nvmlProcessDetail_v1_t *at = plist->procArray;
  for (unsigned i = 0; i < report->processes_count; i++) {
    const outboard_ProcessState *process = &report->processes[i];
    if (process->device != device->index) continue;
    *at++ = (nvmlProcessDetail_v1_t){.pid = process->pid,
                                     .usedGpuMemory = process->memory,
                                     .gpuInstanceId = NO_INSTANCE,
                                     .computeInstanceId = NO_INSTANCE};
  }
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlDeviceGetProcessUtilization(const struct shown_device *device,
                                                    nvmlProcessUtilizationSample_t *utilization,
                                                    unsigned int *processSamplesCount,
                                                    unsigned long long lastSeenTimeStamp) {
  if (!processSamplesCount) return NVML_ERROR_INVALID_ARGUMENT;
  const struct timespec now = clock_of_day();
  unsigned long long microseconds =
      (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000;
  const outboard_DeviceReport *report = current();
  if (!report) return NVML_ERROR_GPU_IS_LOST;
  unsigned found = count_on(report, device->index);
  if (!found || lastSeenTimeStamp >= microseconds) return NVML_ERROR_NOT_FOUND;
  if (!utilization) *processSamplesCount = 0;
  nvmlReturn_t result = make_room(processSamplesCount, utilization, found);
  if (result) return result;
  for (unsigned i = 0; i < report->processes_count; i++) {
    const outboard_ProcessState *process = &report->processes[i];
    if (process->device != device->index) continue;
    if (!process->has_busy) return NVML_ERROR_NOT_SUPPORTED;
    *utilization++ = (nvmlProcessUtilizationSample_t){
        .pid = process->pid, .timeStamp = microseconds, .smUtil = process->busy};
  }
  return NVML_SUCCESS;
}
