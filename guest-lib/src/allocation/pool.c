#include "allocation/pool.h"

#include <stdlib.h>

#include "allocation/internal.h"
#include "guest_calls.h"
#include "memory/peer.h"
#include "session/device.h"
#include "session/handle.h"
#include "session/session.h"
#include "setup/device_description.h"
#include "wire/enter.h"

static uint64_t defaults[DEVICES_MAX];  // made when they are first asked for
static uint64_t chosen[DEVICES_MAX];    // 0: the default pool

static CUmemoryPool as_driver(uint64_t handle) { return (CUmemoryPool)(uintptr_t)handle; }

struct pool *pool_find(CUmemoryPool handle) {
  return handle_object(WIRE_KIND_POOL, handle_of(handle));
}

uint64_t pool_make(int device, uint64_t most) {
  struct pool *pool = calloc(1, sizeof *pool);
  if (!pool) return 0;
  *pool = (struct pool){.device = device, .most = most, .reuse = {1, 1, 1}};
  uint64_t handle = handle_mint(session_of_device(device), WIRE_KIND_POOL, pool);
  if (!handle) free(pool);
  return handle;
}

static uint64_t default_pool(int device) {
  pthread_mutex_lock(&memory_lock);
  if (!defaults[device]) defaults[device] = pool_make(device, 0);
  uint64_t handle = defaults[device];
  pthread_mutex_unlock(&memory_lock);
  return handle;
}

void pool_count_free(uint64_t handle, uint64_t size) {
  struct pool *pool = handle ? handle_peek(WIRE_KIND_POOL, handle) : NULL;
  if (pool) pool->used -= size < pool->used ? size : pool->used;
}

static void empty(uint64_t handle, void *object, void *context) {
  (void)handle, (void)context;
  ((struct pool *)object)->used = 0;
}

void pool_empty_all(struct session *session) { handle_each(session, WIRE_KIND_POOL, empty, NULL); }

// The places where CUDA has pools. "The node of the current thread" is none of them.
static CUresult device_of(const CUmemLocation *location) {
  static _Atomic _Bool host_said, domain_said;
  if (!location) return CUDA_ERROR_INVALID_VALUE;
  switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return device_exists(location->id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return guest_not_served(&host_said, "pools of host memory");
    case CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN:
      return guest_not_served(&domain_said, "pools of a locality domain of a device");
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult check_type(CUmemAllocationType type) {
  if (type == CU_MEM_ALLOCATION_TYPE_PINNED) return CUDA_SUCCESS;
  if (type != CU_MEM_ALLOCATION_TYPE_MANAGED) return CUDA_ERROR_INVALID_VALUE;
  static _Atomic _Bool said;
  return guest_not_served(&said, "pools of managed memory");
}

// ---- which pool --------------------------------------------------------------------------------

CUresult guest_cuDeviceGetDefaultMemPool(CUmemoryPool *pool_out, CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!pool_out) return CUDA_ERROR_INVALID_VALUE;
  uint64_t handle = default_pool(dev);
  if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
  *pool_out = as_driver(handle);
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  if (!chosen[dev]) return guest_cuDeviceGetDefaultMemPool(pool, dev);
  *pool = as_driver(chosen[dev]);
  return CUDA_SUCCESS;
}

CUresult guest_cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  struct pool *found = pool_find(pool);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  if (found->device != dev) return CUDA_ERROR_INVALID_VALUE;
  chosen[dev] = handle_of(pool);
  return CUDA_SUCCESS;
}

CUresult guest_cuMemGetDefaultMemPool(CUmemoryPool *pool_out, CUmemLocation *location,
                                      CUmemAllocationType type) {
  CUresult result = check_type(type);
  if (!result) result = device_of(location);
  return result ? result : guest_cuDeviceGetDefaultMemPool(pool_out, location->id);
}

CUresult guest_cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location,
                               CUmemAllocationType type) {
  CUresult result = check_type(type);
  if (!result) result = device_of(location);
  return result ? result : guest_cuDeviceGetMemPool(pool, location->id);
}

CUresult guest_cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type,
                               CUmemoryPool pool) {
  CUresult result = device_of(location);
  if (!result) result = check_type(type);
  if (result) return result;
  return guest_cuDeviceSetMemPool(location->id, pool);
}

// ---- a pool ------------------------------------------------------------------------------------

CUresult guest_cuMemPoolCreate(CUmemoryPool *pool, const CUmemPoolProps *poolProps) {
  static _Atomic _Bool said;
  if (!pool || !poolProps) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_type(poolProps->allocType);
  if (!result) result = device_of(&poolProps->location);
  if (result) return result;
  if (poolProps->handleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return guest_not_served(&said, "pools that are shared by other handles than descriptors");
  uint64_t handle = pool_make(poolProps->location.id, poolProps->maxSize);
  if (!handle) return CUDA_ERROR_OUT_OF_MEMORY;
  *pool = as_driver(handle);
  if (poolProps->handleTypes) result = pool_name(pool_find(*pool));
  if (result) guest_cuMemPoolDestroy(*pool);
  return result;
}

// Opens the memory of a pool to a device, or closes it. Other memory of the pool's device is opened
// with it.
static CUresult open_to(struct pool *pool, int device, _Bool open) {
  const unsigned bit = 1u << device;
  struct session *borrower = session_of_device(device), *owner = session_of_device(pool->device);
  if (device == pool->device || open == !!(pool->borrowers & bit)) return CUDA_SUCCESS;
  CUresult result = CUDA_SUCCESS;
  if (open)
    result = peer_open(borrower, owner);
  else
    peer_close(borrower, owner);
  if (!result) pool->borrowers ^= bit;
  return result;
}

// A pool's allocations outlive it.
CUresult guest_cuMemPoolDestroy(CUmemoryPool pool) {
  uint64_t handle = handle_of(pool);
  struct pool *found = pool_find(pool);
  for (int device = 0; found && defaults[found->device] != handle && device < device_count();
       device++)
    open_to(found, device, 0);
  pthread_mutex_lock(&memory_lock);
  found = pool_find(pool);
  CUresult result = CUDA_SUCCESS;
  if (!found || defaults[found->device] == handle) {
    result = CUDA_ERROR_INVALID_VALUE;
  } else {
    if (chosen[found->device] == handle) chosen[found->device] = 0;
    free(handle_retire(WIRE_KIND_POOL, handle));
    handle_recycle(WIRE_KIND_POOL, handle);
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

// Memory goes back when it is freed and no work uses it any more: nothing is kept that could be
// trimmed.
CUresult guest_cuMemPoolTrimTo(CUmemoryPool pool, size_t minBytesToKeep) {
  (void)minBytesToKeep;
  return pool_find(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  struct pool *found = pool_find(pool);
  if (!found || !value) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&memory_lock);
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      // Hints: memory is used again in its stream, or once its work is known to be done.
      found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES] = *(int *)value;
      break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      found->threshold = *(cuuint64_t *)value;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*(cuuint64_t *)value)
        result = CUDA_ERROR_INVALID_VALUE;
      else
        found->high = found->used;
      break;
    default:
      result = CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

CUresult guest_cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute attr, void *value) {
  struct pool *found = pool_find(pool);
  if (!found || !value) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = CUDA_SUCCESS;
  pthread_mutex_lock(&memory_lock);
  switch (attr) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *(int *)value = found->reuse[attr - CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES];
      break;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *(cuuint64_t *)value = found->threshold;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *(cuuint64_t *)value = found->used;
      break;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *(cuuint64_t *)value = found->high;
      break;
    default:
      result = CUDA_ERROR_INVALID_VALUE;
  }
  pthread_mutex_unlock(&memory_lock);
  return result;
}

// ---- who may use its memory --------------------------------------------------------------------

static CUresult check_access(const CUmemAccessDesc *access, const struct pool *pool) {
  if (access->location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(access->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  _Bool none = access->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE;
  if (!none && access->flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE) return CUDA_ERROR_INVALID_VALUE;
  if (access->location.id == pool->device)
    return none ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;  // a device keeps its own
  if (none || device_peer(access->location.id, pool->device)) return CUDA_SUCCESS;
  return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
}

CUresult guest_cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc *map, size_t count) {
  struct pool *found = pool_find(pool);
  if (!found || !map || !count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    CUresult result = check_access(&map[i], found);
    if (result) return result;
  }
  CUresult result = CUDA_SUCCESS;
  for (size_t i = 0; i < count && !result; i++)
    result = open_to(found, map[i].location.id, map[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE);
  return result;
}

CUresult guest_cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool memPool,
                                  CUmemLocation *location) {
  struct pool *found = pool_find(memPool);
  if (!found || !flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!device_exists(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = location->id == found->device || found->borrowers >> location->id & 1
               ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
               : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}
