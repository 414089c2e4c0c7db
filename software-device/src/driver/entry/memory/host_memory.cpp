// Entry points: host memory that kernels can reach.
#include "entry/entry.h"
#include "streams/task.h"

using namespace softdev::driver;

namespace {

bool is_host(const Region &region) { return region.kind == RegionKind::kHost; }
bool is_registered(const Region &region) { return region.kind == RegionKind::kRegistered; }

CUresult allocate(void **pointer, size_t size, unsigned flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  constexpr unsigned known =
      CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | CU_MEMHOSTALLOC_WRITECOMBINED;
  if (!pointer || !size || (flags & ~known)) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    uint64_t base =
        driver()->memory.allocate_host(size, RegionKind::kHost, -1, context->handle(), flags);
    if (!base) return refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes of host memory", size);
    *pointer = reinterpret_cast<void *>(base);
    return CUDA_SUCCESS;
  });
}

// Waits for the work of all devices, any of which may be using it.
CUresult release(void *pointer, bool (*fits)(const Region &), CUresult otherwise) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter_anywhere(&context)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  Driver &all = *driver();
  auto region = all.memory.remove(address_of(pointer), fits);
  if (!region) return refuse(otherwise, "%p is not the start of such memory", pointer);
  auto drain_all = [&] {
    for (const auto &device : all.devices) device->drain();
  };
  drain_all();
  all.memory.destroy(std::move(region), drain_all);
  for (const auto &device : all.devices)
    all.memory.space(device->ordinal).forget_retired(device->kernels);
  return CUDA_SUCCESS;
}

// A pinned or registered region that holds `pointer`; call with the pin held.
const Region *find(const void *pointer) {
  const Region *region = driver()->memory.find(address_of(pointer));
  return region && (is_host(*region) || is_registered(*region)) ? region : nullptr;
}

}  // namespace

extern "C" {

CUresult cuMemHostAlloc(void **pointer, size_t size, unsigned int flags) {
  return allocate(pointer, size, flags);
}

CUresult cuMemAllocHost_v2(void **pointer, size_t size) { return allocate(pointer, size, 0); }

CUresult cuMemFreeHost(void *pointer) {
  if (!pointer) return enter();
  return guarded([&] { return release(pointer, is_host, CUDA_ERROR_INVALID_VALUE); });
}

CUresult cuMemHostRegister_v2(void *pointer, size_t size, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (CUresult bad = admit_unsafe()) return bad;
  constexpr unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                             CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (!pointer || !size || size > UINT64_MAX - address_of(pointer) || (flags & ~known))
    return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_MEMHOSTREGISTER_IOMEMORY)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "memory of other devices cannot be registered");
  return guarded([&] {
    int result =
        driver()->memory.register_host(address_of(pointer), size, context->handle(), flags);
    return static_cast<CUresult>(result);
  });
}

CUresult cuMemHostUnregister(void *pointer) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  {
    auto pin = driver()->memory.pin();
    const Region *region = find(pointer);
    if (region && (!is_registered(*region) || region->base != address_of(pointer)))
      return refuse(CUDA_ERROR_INVALID_VALUE, "%p is not the start of registered memory", pointer);
  }
  return guarded(
      [&] { return release(pointer, is_registered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED); });
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *pointer, unsigned int flags) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!address || flags) return CUDA_ERROR_INVALID_VALUE;
  auto pin = driver()->memory.pin();
  if (!find(pointer)) return refuse(CUDA_ERROR_INVALID_VALUE, "%p is not pinned", pointer);
  *address = address_of(pointer);
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *pointer) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!flags) return CUDA_ERROR_INVALID_VALUE;
  auto pin = driver()->memory.pin();
  const Region *region = find(pointer);
  if (!region || !is_host(*region)) return CUDA_ERROR_INVALID_VALUE;
  // All pinned memory is mapped, whether it was asked for or not.
  *flags = region->flags | CU_MEMHOSTALLOC_DEVICEMAP;
  return CUDA_SUCCESS;
}

}  // extern "C"
