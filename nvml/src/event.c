// Sets of events, for who asks for one before looking at anything (nvidia-smi): there are no
// events, so that nothing can be put into a set, and waiting for one ends when its time is over.
#include <time.h>

#include "nvml_calls.h"

static char the_set;  // they are all alike

static _Bool is_set(nvmlEventSet_t set) { return (void *)set == &the_set; }

nvmlReturn_t answer_nvmlEventSetCreate(nvmlEventSet_t *set) {
  if (!set) return NVML_ERROR_INVALID_ARGUMENT;
  *set = (nvmlEventSet_t)(void *)&the_set;
  return NVML_SUCCESS;
}

nvmlReturn_t answer_nvmlEventSetFree(nvmlEventSet_t set) {
  return is_set(set) ? NVML_SUCCESS : NVML_ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t answer_nvmlDeviceRegisterEvents(const struct shown_device *device,
                                             unsigned long long eventTypes, nvmlEventSet_t set) {
  (void)device;
  if (!is_set(set)) return NVML_ERROR_INVALID_ARGUMENT;
  return eventTypes ? NVML_ERROR_NOT_SUPPORTED : NVML_SUCCESS;
}

// Not with the lock held: others go on.
nvmlReturn_t answer_nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t *data,
                                        unsigned int timeoutms) {
  nvmlReturn_t result = shown_begin();
  if (result) return result;
  shown_end();
  if (!is_set(set) || !data) return NVML_ERROR_INVALID_ARGUMENT;
  struct timespec left = {timeoutms / 1000, timeoutms % 1000 * 1000000L};
  while (nanosleep(&left, &left) != 0) {
  }
  return NVML_ERROR_TIMEOUT;
}
