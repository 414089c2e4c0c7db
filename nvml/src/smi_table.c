// The table of functions that nvidia-smi asks for before anything else. No header declares it: what
// is known of it is its name, that its first word is its size, and what is at a few of its places,
// which NVIDIA describes in a stand-in for NVML of its own (k8s-test-infra, for release 580; 535
// and 550 have the same there), or shows by what it does with answers. Everything else in it is not
// supported, which nvidia-smi takes well.
#include <stdint.h>
#include <string.h>

#include "nvml_calls.h"
#include "process.h"

#define TABLE_NAME \
  { 0xc4, 0xfe, 0x3e, 0x6c, 0xc9, 0x8f, 0x6c, 0x4e, 0xa3, 0x27, 0xee, 0x69, 0x6e, 0x12, 0xf7, 0xc4 }

enum {
  PLACE_CAN_BE_WATCHED = 72,  // by pmon and dmon
  PLACE_HANDLE_BY_INDEX = 81,
  PLACE_COMPUTE_PROCESSES = 213,
  PLACE_GRAPHICS_PROCESSES,
  PLACE_MPS_PROCESSES,
  PLACES = 512,
};

// As it lists them there.
struct listed {
  nvmlProcessDetail_v1_t process;
  char name[4096];
};
_Static_assert(sizeof(struct listed) == 4128, "how far apart processes are");

// Whatever its arguments are (SysV calling convention).
static nvmlReturn_t nothing(void) { return NVML_ERROR_NOT_SUPPORTED; }

static nvmlReturn_t can_be_watched(nvmlDevice_t device, unsigned *can) {
  (void)device;
  if (!can) return NVML_ERROR_INVALID_ARGUMENT;
  *can = 1;
  return NVML_SUCCESS;
}

static nvmlReturn_t no_processes(nvmlDevice_t device, unsigned *count) {
  (void)device;
  if (!count) return NVML_ERROR_INVALID_ARGUMENT;
  *count = 0;
  return NVML_SUCCESS;
}

// As many as have room.
static nvmlReturn_t compute_processes(nvmlDevice_t handle, unsigned *count, struct listed *list) {
  const struct shown_device *device;
  const outboard_DeviceReport *report;
  if (!count || (*count && !list)) return NVML_ERROR_INVALID_ARGUMENT;
  nvmlReturn_t result = shown_begin_device(handle, &device);
  if (result) return result;
  result = shown_report(&report);
  unsigned room = *count, found = 0;
  for (unsigned i = 0; !result && i < report->processes_count && found < room; i++) {
    const outboard_ProcessState *process = &report->processes[i];
    if (process->device != device->index) continue;
    struct listed *at = &list[found++];
    at->process = (nvmlProcessDetail_v1_t){.pid = process->pid,
                                           .usedGpuMemory = process->memory,
                                           .gpuInstanceId = UINT32_MAX,
                                           .computeInstanceId = UINT32_MAX};
    process_name(process, at->name, sizeof at->name);
  }
  if (!result) *count = found;
  shown_end();
  return result;
}

static union {
  uintptr_t size;
  void (*function)(void);
} table[PLACES];

#define PUT(place, what) table[place].function = (void (*)(void))(what)

nvmlReturn_t answer_nvmlInternalGetExportTable(const void **out, const void *id) {
  static const uint8_t name[16] = TABLE_NAME;
  if (!out || !id) return NVML_ERROR_INVALID_ARGUMENT;
  *out = NULL;
  if (memcmp(id, name, sizeof name) != 0) return NVML_ERROR_NOT_SUPPORTED;
  nvmlReturn_t result = shown_begin();  // which is a lock, too
  if (result) return result;
  if (!table[0].size) {
    for (unsigned place = 1; place < PLACES; place++) PUT(place, nothing);
    PUT(PLACE_CAN_BE_WATCHED, can_be_watched);
    PUT(PLACE_HANDLE_BY_INDEX, nvmlDeviceGetHandleByIndex_v2);
    PUT(PLACE_COMPUTE_PROCESSES, compute_processes);
    PUT(PLACE_GRAPHICS_PROCESSES, no_processes);
    PUT(PLACE_MPS_PROCESSES, no_processes);
    table[0].size = sizeof table;
  }
  *out = table;
  shown_end();
  return NVML_SUCCESS;
}
