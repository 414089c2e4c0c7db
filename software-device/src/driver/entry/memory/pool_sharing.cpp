// Entry points: who else may use the memory of a pool: other devices, other processes.
#include <fcntl.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "entry/entry.h"
#include "entry/memory/pool.h"
#include "entry/memory/sharing.h"

namespace softdev::driver {

// A device that was let into a pool gets at all memory of the pool's device.
Pool::~Pool() {
  for (int visitor : visitors) driver()->device(visitor)->close_peer(device);
}

}  // namespace softdev::driver

using namespace softdev::driver;

namespace {

constexpr uint64_t kPoolMagic = 0x706f6f6c2d3031;

PoolIdentity identity_of(const Pool &pool) {
  PoolIdentity identity;
  identity.magic = kPoolMagic;
  identity.process = getpid();
  identity.process_started = process_start(getpid());
  identity.number = pool.handle();
  identity.device = driver()->device(pool.device)->uuid();
  return identity;
}

// Whether an access is one, and by whom.
CUresult check_access(const CUmemAccessDesc &access, const Pool &pool) {
  if (access.location.type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_INVALID_VALUE;
  if (!driver()->device(access.location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (access.flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
      access.flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
    return CUDA_ERROR_INVALID_VALUE;
  if (access.location.id == pool.device && access.flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a device keeps its access to its own pools");
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemPoolSetAccess(CUmemoryPool handle, const CUmemAccessDesc *map, size_t count) {
  std::shared_ptr<Pool> pool;
  if (CUresult bad = find_pool(handle, &pool)) return bad;
  if (!map || !count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++)
    if (CUresult bad = check_access(map[i], *pool)) return bad;
  return guarded([&] {
    // What runs may use it to its end. Not under the lock, which queued frees take.
    for (size_t i = 0; i < count; i++)
      if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE)
        driver()->device(map[i].location.id)->drain();
    std::lock_guard guard(pool->mutex);
    for (size_t i = 0; i < count; i++) {
      int visitor = map[i].location.id;
      if (visitor == pool->device) continue;
      if (map[i].flags == CU_MEM_ACCESS_FLAGS_PROT_NONE) {
        if (pool->visitors.erase(visitor)) driver()->device(visitor)->close_peer(pool->device);
      } else if (pool->visitors.insert(visitor).second) {
        driver()->device(visitor)->open_peer(pool->device);
      }
    }
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolGetAccess(CUmemAccess_flags *flags, CUmemoryPool handle,
                            CUmemLocation *location) {
  std::shared_ptr<Pool> pool;
  if (CUresult bad = find_pool(handle, &pool)) return bad;
  if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE)
    return CUDA_ERROR_INVALID_VALUE;
  if (!driver()->device(location->id)) return CUDA_ERROR_INVALID_DEVICE;
  std::lock_guard guard(pool->mutex);
  bool open = location->id == pool->device || pool->visitors.count(location->id);
  *flags = open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolExportToShareableHandle(void *shared, CUmemoryPool handle,
                                          CUmemAllocationHandleType type,
                                          unsigned long long flags) {
  std::shared_ptr<Pool> pool;
  if (CUresult bad = find_pool(handle, &pool)) return bad;
  if (!shared || flags) return CUDA_ERROR_INVALID_VALUE;
  if (!pool->shareable || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the pool was not created to be shared so");
  return guarded([&]() -> CUresult {
    PoolIdentity identity = identity_of(*pool);
    auto note = create_note(&identity, sizeof identity);
    int number = note ? fcntl(note->number(), F_DUPFD_CLOEXEC, ABI_DESCRIPTOR_LEAST) : -1;
    if (number < 0) return refuse(CUDA_ERROR_OPERATING_SYSTEM, "no file descriptor is left");
    *static_cast<int *>(shared) = number;
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolImportFromShareableHandle(CUmemoryPool *handle, void *shared,
                                            CUmemAllocationHandleType type,
                                            unsigned long long flags) {
  if (CUresult bad = enter()) return bad;
  if (!handle || flags || type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    PoolIdentity identity;
    auto number = reinterpret_cast<intptr_t>(shared);
    if (number < 0 || number > INT32_MAX ||
        !read_note(static_cast<int>(number), &identity, sizeof identity) ||
        identity.magic != kPoolMagic || identity.process <= 0)
      return refuse(CUDA_ERROR_INVALID_VALUE, "descriptor %d is of no pool",
                    static_cast<int>(number));
    Device *device = device_of(identity.device);
    if (!device) return refuse(CUDA_ERROR_INVALID_DEVICE, "its device is not visible here");
    auto pool = std::make_shared<Pool>();
    pool->device = device->ordinal;
    pool->identity = identity;
    *handle = reinterpret_cast<CUmemoryPool>(driver()->handles.add(pool));
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolExportPointer(CUmemPoolPtrExportData *data, CUdeviceptr address) {
  if (CUresult bad = enter()) return bad;
  if (!data) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    uint64_t handle = 0;
    {
      auto pin = driver()->memory.pin();
      const Region *region = driver()->memory.find(address);
      if (region && region->base == address && region->kind == RegionKind::kDevice)
        handle = region->pool;
    }
    auto pool = driver()->handles.find<Pool>(handle);
    if (!pool || !pool->shareable)
      return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not of a pool that can be shared",
                    address);
    auto share = driver()->memory.offer(
        address, SharedKind::kPoolMemory, handle, driver()->device(pool->device)->uuid(),
        [&](const Region &region) { return region.pool == handle && region.base == address; });
    if (!share) return refuse(CUDA_ERROR_OPERATING_SYSTEM, "0x%llx cannot be shared", address);
    static_assert(sizeof *data == sizeof(ShareName));
    memcpy(data, &share->name(), sizeof *data);
    return CUDA_SUCCESS;
  });
}

CUresult cuMemPoolImportPointer(CUdeviceptr *address, CUmemoryPool handle,
                                CUmemPoolPtrExportData *data) {
  std::shared_ptr<Pool> pool;
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (CUresult bad = find_pool(handle, &pool)) return bad;
  if (!address || !data) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    ShareName name;
    memcpy(&name, data, sizeof name);
    const PoolIdentity &identity = pool->identity;
    if (!pool->imported() || name.process != identity.process ||
        name.process_started != identity.process_started || name.pool != identity.number)
      return refuse(CUDA_ERROR_INVALID_VALUE, "the pointer is not of this pool");
    return open_memory(name, SharedKind::kPoolMemory, context, pool->handle(), address);
  });
}

}  // extern "C"
