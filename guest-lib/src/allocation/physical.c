// Pieces of memory without addresses, which programs make by cuMemCreate.
#include <stdlib.h>

#include "allocation/internal.h"
#include "allocation/virtual_memory.h"
#include "guest_calls.h"
#include "memory/limit.h"
#include "session/device.h"
#include "session/handle.h"
#include "session/session.h"
#include "wire/enter.h"

// The places where CUDA has pieces of memory. "The node of the current thread" is none of them.
static CUresult check_place(const CUmemAllocationProp *prop) {
  static _Atomic _Bool host_said, domain_said;
  switch (prop->location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return device_exists(prop->location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
      if (prop->requestedHandleTypes) return CUDA_ERROR_INVALID_VALUE;  // nobody shares it
      __attribute__((fallthrough));
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return guest_not_served(&host_said, "pieces of host memory");
    case CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN:
      return guest_not_served(&domain_said, "pieces of a locality domain of a device");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult check(const CUmemAllocationProp *prop) {
  static _Atomic _Bool handle_said;
  if (!prop || prop->type != CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_place(prop);
  if (result) return result;
  if (prop->requestedHandleTypes & ~(int)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return guest_not_served(&handle_said,
                            "pieces of memory that are shared by other handles than descriptors");
  return CUDA_SUCCESS;
}

struct physical *physical_new(struct session *session, uint64_t size, int device, _Bool shareable) {
  struct physical *physical = calloc(1, sizeof *physical);
  if (!physical || !memory_charge(session, size)) {
    free(physical);
    return NULL;
  }
  *physical =
      (struct physical){.size = size, .device = device, .shareable = shareable, .references = 1};
  physical->handle = handle_mint(session, WIRE_KIND_MEMORY, physical);
  if (physical->handle) return physical;
  memory_discharge(session, size);
  free(physical);
  return NULL;
}

struct physical *physical_find(uint64_t handle) {
  struct physical *physical = handle_object(WIRE_KIND_MEMORY, handle);
  return physical && physical->references ? physical : NULL;
}

CUresult physical_drop_unused(struct physical *physical) {
  if (physical->references || physical->mappings) return CUDA_SUCCESS;
  uint64_t handle = physical->handle;
  memory_discharge(session_here(), physical->size);
  handle_retire(WIRE_KIND_MEMORY, handle);
  CUresult result = put_MemoryRelease(session_here(), handle);
  handle_recycle(WIRE_KIND_MEMORY, handle);
  free(physical);
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *prop,
                                             CUmemAllocationGranularity_flags option) {
  if (!granularity || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check(prop);
  if (!result) *granularity = window_granule();
  return result;
}

CUresult guest_cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                           const CUmemAllocationProp *prop, unsigned long long flags) {
  if (!handle || !granular(0, size) || flags) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check(prop);
  if (result) return result;
  int device = prop->location.id;
  session_use(session_of_device(device));
  _Bool shareable = prop->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE;
  pthread_mutex_lock(&memory_lock);
  struct physical *made = physical_new(session_here(), size, device, shareable);
  if (!made && !(result = memory_make_room(session_here())))
    made = physical_new(session_here(), size, device, shareable);
  struct session *session = session_here();
  if (made) {
    result = put_MemoryCreate(session, made->handle, size, device_get(device)->server_ordinal,
                              shareable);
    *handle = made->handle;
  } else if (!result) {
    memory_log_shortage(session, size);
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult guest_cuMemRelease(CUmemGenericAllocationHandle handle) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&memory_lock);
  struct physical *physical = physical_find(handle);
  if (physical) {
    physical->references--;
    result = physical_drop_unused(physical);
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult guest_cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                      CUmemGenericAllocationHandle handle) {
  CUresult result = CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&memory_lock);
  struct physical *physical = physical_find(handle);
  if (prop && physical) {
    *prop = (CUmemAllocationProp){
        .type = CU_MEM_ALLOCATION_TYPE_PINNED,
        .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = physical->device}};
    if (physical->shareable) prop->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    result = CUDA_SUCCESS;
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}
