// Entry points: stream-ordered allocation. An allocation is made when it is called for, which is
// never too late; freeing happens in its place in the stream.
#include "entry/entry.h"
#include "entry/memory/pool.h"
#include "graphs/capture.h"
#include "graphs/memory.h"

using namespace softdev::driver;

namespace softdev::driver {

void count_free(const Region &region) {
  auto pool = driver()->handles.find<Pool>(region.pool);
  if (!pool) return;
  std::lock_guard guard(pool->mutex);
  pool->used -= std::min(pool->used, region.size);
}

CUresult find_pool(CUmemoryPool handle, std::shared_ptr<Pool> *pool) {
  if (CUresult bad = enter()) return bad;
  *pool = driver()->handles.find<Pool>(handle);
  return *pool ? CUDA_SUCCESS
               : refuse(CUDA_ERROR_INVALID_VALUE, "%p is no memory pool",
                        static_cast<void *>(handle));
}

}  // namespace softdev::driver

namespace {

// Made when it is first asked for.
std::shared_ptr<Pool> default_pool(Device &device) {
  static std::mutex mutex;
  std::lock_guard guard(mutex);
  if (uint64_t handle = device.default_pool) return driver()->handles.find<Pool>(handle);
  auto pool = std::make_shared<Pool>();
  pool->device = device.ordinal;
  device.default_pool = driver()->handles.add(pool);
  return pool;
}

std::shared_ptr<Pool> current_pool(Device &device) {
  if (uint64_t handle = device.pool)
    if (auto pool = driver()->handles.find<Pool>(handle)) return pool;
  return default_pool(device);
}

CUresult check_type(CUmemAllocationType type) {
  if (type == CU_MEM_ALLOCATION_TYPE_MANAGED)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "pools of managed memory are not there");
  return type == CU_MEM_ALLOCATION_TYPE_PINNED ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult allocate(CUdeviceptr *address, size_t size, const std::shared_ptr<Pool> &pool,
                  const StreamRef &stream) {
  if (!address || !size) return CUDA_ERROR_INVALID_VALUE;
  if (pool->imported())
    return refuse(CUDA_ERROR_INVALID_VALUE, "a pool of another process gives no memory here");
  if (CUresult bad = admit(stream, Use::kQueue)) return bad;
  if (stream->capturing()) {
    uint64_t at;
    CUresult result = capture_allocation(stream, pool->device, size, &at);
    if (result == CUDA_SUCCESS) *address = at;
    return result;
  }
  Memory &memory = driver()->memory;
  if (pool->most && size > pool->most - std::min<uint64_t>(pool->used, pool->most))
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "the pool's limit is %zu bytes", pool->most);
  auto attempt = [&] {
    return memory.allocate_device(pool->device, size, 512, stream.context->handle());
  };
  uint64_t base = attempt();
  if (!base) {
    // Frees that are queued may make room.
    driver()->device(pool->device)->drain();
    base = attempt();
  }
  if (!base)
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are asked for, %llu are free", size,
                  static_cast<unsigned long long>(memory.free_bytes(pool->device)));
  memory.set_pool(base, pool->handle(), pool);
  std::lock_guard guard(pool->mutex);
  pool->used += size;
  pool->high = std::max(pool->high, pool->used);
  *address = base;
  return CUDA_SUCCESS;
}

CUresult allocate_current(CUdeviceptr *address, size_t size, CUstream handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_for_work(handle, null, &stream)) return bad;
  return guarded(
      [&] { return allocate(address, size, current_pool(stream.context->device()), stream); });
}

CUresult allocate_from(CUdeviceptr *address, size_t size, CUmemoryPool pool_handle, CUstream handle,
                       Default null) {
  StreamRef stream;
  if (CUresult bad = find_for_work(handle, null, &stream)) return bad;
  std::shared_ptr<Pool> pool;
  if (CUresult bad = find_pool(pool_handle, &pool)) return bad;
  return guarded([&] { return allocate(address, size, pool, stream); });
}

CUresult release(CUdeviceptr address, CUstream handle, Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (!address) return CUDA_SUCCESS;
  return guarded([&]() -> CUresult {
    if (CUresult bad = admit(stream, Use::kQueue)) return bad;
    if (stream->capturing()) return capture_free(stream, address);
    bool of_graph;
    GraphAllocationRef allocation;
    if (CUresult bad = free_graph_memory(address, &of_graph, &allocation)) return bad;
    if (of_graph) {
      auto work = std::make_shared<Operation>(stream.context, Where::kCopier);
      work->run = [allocation](Operation &) {};  // it is held until the stream gets there
      Queue::push(*stream, work);
      return CUDA_SUCCESS;
    }
    auto region = driver()->memory.remove(address, [](const Region &candidate) {
      return (candidate.kind == RegionKind::kDevice && !candidate.variable && !candidate.graph) ||
             (candidate.kind == RegionKind::kImported && candidate.pool);
    });
    if (!region)
      return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not the start of an allocation", address);
    auto work = std::make_shared<Operation>(stream.context, Where::kCopier);
    work->always = true;
    work->run = [region = std::move(region)](Operation &) mutable {
      count_free(*region);
      driver()->memory.destroy(std::move(region), [] {});
    };
    Queue::push(*stream, work);
    return CUDA_SUCCESS;
  });
}

// The places where CUDA has pools. "The node of the current thread" is none of them.
CUresult device_of(const CUmemLocation *location, Device **device) {
  if (!location) return CUDA_ERROR_INVALID_VALUE;
  switch (location->type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      *device = driver()->device(location->id);
      return *device ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "pools of host memory are not there");
    case CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN:
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "devices have no locality domains with pools");
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "location type %d has no pools", location->type);
  }
}

}  // namespace

extern "C" {

CUresult cuMemAllocAsync(CUdeviceptr *address, size_t size, CUstream stream) {
  return allocate_current(address, size, stream, Default::kLegacy);
}
CUresult cuMemAllocAsync_ptsz(CUdeviceptr *address, size_t size, CUstream stream) {
  return allocate_current(address, size, stream, Default::kPerThread);
}
CUresult cuMemAllocFromPoolAsync(CUdeviceptr *address, size_t size, CUmemoryPool pool,
                                 CUstream stream) {
  return allocate_from(address, size, pool, stream, Default::kLegacy);
}
CUresult cuMemAllocFromPoolAsync_ptsz(CUdeviceptr *address, size_t size, CUmemoryPool pool,
                                      CUstream stream) {
  return allocate_from(address, size, pool, stream, Default::kPerThread);
}
CUresult cuMemFreeAsync(CUdeviceptr address, CUstream stream) {
  return release(address, stream, Default::kLegacy);
}
CUresult cuMemFreeAsync_ptsz(CUdeviceptr address, CUstream stream) {
  return release(address, stream, Default::kPerThread);
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *pool, CUdevice ordinal) {
  if (CUresult bad = enter()) return bad;
  Device *device = driver()->device(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  *pool = as_handle<CUmemoryPool>(*default_pool(*device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetMemPool(CUmemoryPool *pool, CUdevice ordinal) {
  if (CUresult bad = enter()) return bad;
  Device *device = driver()->device(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (!pool) return CUDA_ERROR_INVALID_VALUE;
  *pool = as_handle<CUmemoryPool>(*current_pool(*device));
  return CUDA_SUCCESS;
}

CUresult cuDeviceSetMemPool(CUdevice ordinal, CUmemoryPool handle) {
  std::shared_ptr<Pool> pool;
  if (CUresult bad = find_pool(handle, &pool)) return bad;
  Device *device = driver()->device(ordinal);
  if (!device) return CUDA_ERROR_INVALID_DEVICE;
  if (pool->device != ordinal) return CUDA_ERROR_INVALID_VALUE;
  device->pool = pool->handle();
  return CUDA_SUCCESS;
}

CUresult cuMemGetDefaultMemPool(CUmemoryPool *pool, CUmemLocation *location,
                                CUmemAllocationType type) {
  if (CUresult bad = enter()) return bad;
  if (CUresult bad = check_type(type)) return bad;
  Device *device;
  if (CUresult bad = device_of(location, &device)) return bad;
  return cuDeviceGetDefaultMemPool(pool, device->ordinal);
}

CUresult cuMemGetMemPool(CUmemoryPool *pool, CUmemLocation *location, CUmemAllocationType type) {
  if (CUresult bad = enter()) return bad;
  if (CUresult bad = check_type(type)) return bad;
  Device *device;
  if (CUresult bad = device_of(location, &device)) return bad;
  return cuDeviceGetMemPool(pool, device->ordinal);
}

CUresult cuMemSetMemPool(CUmemLocation *location, CUmemAllocationType type, CUmemoryPool pool) {
  if (CUresult bad = enter()) return bad;
  Device *device;
  if (CUresult bad = device_of(location, &device)) return bad;
  if (CUresult bad = check_type(type)) return bad;
  return cuDeviceSetMemPool(device->ordinal, pool);
}

CUresult cuMemPoolCreate(CUmemoryPool *handle, const CUmemPoolProps *properties) {
  if (CUresult bad = enter()) return bad;
  if (!handle || !properties) return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = check_type(properties->allocType)) return bad;
  Device *device;
  if (CUresult bad = device_of(&properties->location, &device)) return bad;
  if (properties->handleTypes & ~static_cast<int>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "pools are shared by file descriptors only");
  return guarded([&] {
    auto pool = std::make_shared<Pool>();
    pool->device = device->ordinal;
    pool->most = properties->maxSize;
    pool->shareable = properties->handleTypes != CU_MEM_HANDLE_TYPE_NONE;
    *handle = reinterpret_cast<CUmemoryPool>(driver()->handles.add(pool));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolDestroy(CUmemoryPool handle) {
  std::shared_ptr<Pool> pool;
  if (CUresult bad = find_pool(handle, &pool)) return bad;
  Device &device = *driver()->device(pool->device);
  if (device.default_pool == pool->handle())
    return refuse(CUDA_ERROR_INVALID_VALUE, "a default pool cannot be destroyed");
  // Allocations from it live on and keep it, so whoever was let in stays.
  uint64_t current = pool->handle();
  device.pool.compare_exchange_strong(current, 0);
  driver()->handles.remove<Pool>(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool handle, size_t) {
  // Memory goes back to the device when it is freed: there is nothing to trim.
  std::shared_ptr<Pool> pool;
  return find_pool(handle, &pool);
}

CUresult cuMemPoolSetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
  std::shared_ptr<Pool> pool;
  if (CUresult bad = find_pool(handle, &pool)) return bad;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(pool->mutex);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      pool->reuse[attribute - 1] = *static_cast<int *>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      pool->threshold = *static_cast<cuuint64_t *>(value);
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      if (*static_cast<cuuint64_t *>(value) != 0) return CUDA_ERROR_INVALID_VALUE;
      pool->high = pool->used;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool handle, CUmemPool_attribute attribute, void *value) {
  std::shared_ptr<Pool> pool;
  if (CUresult bad = find_pool(handle, &pool)) return bad;
  if (!value) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(pool->mutex);
  auto *number = static_cast<cuuint64_t *>(value);
  switch (attribute) {
    case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
    case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
      *static_cast<int *>(value) = pool->reuse[attribute - 1];
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
      *number = pool->threshold;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
      *number = pool->used;
      return CUDA_SUCCESS;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
      *number = pool->high;
      return CUDA_SUCCESS;
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

}  // extern "C"
