// Entry points: virtual memory management.
#include <mutex>

#include "entry/entry.h"

using namespace softdev::driver;

namespace {

std::mutex references_mutex;

CUresult check_properties(const CUmemAllocationProp *properties) {
  if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return refuse(CUDA_ERROR_INVALID_VALUE, "only pinned allocations can be created");
  if (properties->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "only memory of devices can be created");
  if (!driver()->device(properties->location.id)) return CUDA_ERROR_INVALID_DEVICE;
  if (properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "sharing memory with other processes is not supported");
  return CUDA_SUCCESS;
}

CUmemGenericAllocationHandle add_reference(const std::shared_ptr<Allocation> &allocation) {
  std::lock_guard guard(references_mutex);
  if (allocation->references++ == 0) driver()->handles.add(allocation);
  return allocation->handle();
}

void drain_all() {
  for (const auto &device : driver()->devices) device->drain();
}

CUresult create(CUmemGenericAllocationHandle *handle, size_t size, int device) {
  Driver &all = *driver();
  auto allocation = std::make_shared<Allocation>(&all.memory.physical(device), device, size);
  if (!allocation->physical->take(size, &allocation->extents))
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are asked for, %llu are free", size,
                  static_cast<unsigned long long>(all.memory.free_bytes(device)));
  *handle = add_reference(allocation);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option) {
  if (CUresult bad = enter()) return bad;
  if (!granularity || option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = check_properties(properties)) return bad;
  *granularity = kGranule;
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr at,
                             unsigned long long flags) {
  if (CUresult bad = enter()) return bad;
  if (!address || !size || size % kGranule || flags || at % kGranule ||
      (alignment & (alignment - 1)))
    return refuse(CUDA_ERROR_INVALID_VALUE, "sizes and addresses are multiples of 2 MiB");
  return guarded([&] {
    *address = driver()->memory.reserve(size, std::max<size_t>(alignment, kGranule), at);
    return *address ? CUDA_SUCCESS
                    : refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes of addresses", size);
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  if (CUresult bad = enter()) return bad;
  Driver &all = *driver();
  drain_all();
  auto result = static_cast<CUresult>(all.memory.free_reservation(address, size));
  for (const auto &device : all.devices)
    all.memory.space(device->ordinal).forget_retired(device->kernels);
  if (result != CUDA_SUCCESS)
    return refuse(result, "0x%llx, %zu bytes: not a whole reservation without mappings", address,
                  size);
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                     const CUmemAllocationProp *properties, unsigned long long flags) {
  if (CUresult bad = enter()) return bad;
  if (!handle || !size || size % kGranule || flags)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the size is not a multiple of 2 MiB");
  if (CUresult bad = check_properties(properties)) return bad;
  return guarded([&] { return create(handle, size, properties->location.id); });
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  if (CUresult bad = enter()) return bad;
  std::lock_guard guard(references_mutex);
  auto allocation = driver()->handles.find<Allocation>(handle);
  if (!allocation) return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no allocation", handle);
  if (--allocation->references == 0) driver()->handles.remove<Allocation>(handle);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *handle, void *address) {
  if (CUresult bad = enter()) return bad;
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  auto allocation = driver()->memory.allocation_at(address_of(address));
  if (!allocation) return refuse(CUDA_ERROR_INVALID_VALUE, "%p is not mapped", address);
  *handle = add_reference(allocation);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *properties,
                                                CUmemGenericAllocationHandle handle) {
  if (CUresult bad = enter()) return bad;
  auto allocation = driver()->handles.find<Allocation>(handle);
  if (!properties || !allocation) return CUDA_ERROR_INVALID_VALUE;
  *properties = CUmemAllocationProp{};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location = {CU_MEM_LOCATION_TYPE_DEVICE, allocation->device};
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long flags) {
  if (CUresult bad = enter()) return bad;
  auto allocation = driver()->handles.find<Allocation>(handle);
  if (!allocation || flags)
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no allocation", handle);
  return guarded([&] {
    auto result = static_cast<CUresult>(driver()->memory.map(address, size, offset, allocation));
    if (result == CUDA_SUCCESS) return result;
    return refuse(result,
                  "%zu bytes at 0x%llx: not free addresses of one reservation, or more than "
                  "the allocation has",
                  size, address);
  });
}

CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  if (CUresult bad = enter()) return bad;
  auto result = static_cast<CUresult>(driver()->memory.unmap(address, size, drain_all));
  if (result == CUDA_SUCCESS) return result;
  return refuse(result, "%zu bytes at 0x%llx are not whole mappings", size, address);
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *descriptions,
                        size_t count) {
  if (CUresult bad = enter()) return bad;
  if (!descriptions || !count) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < count; i++) {
    const CUmemAccessDesc &description = descriptions[i];
    // The host reaches all of it anyhow.
    if (description.location.type == CU_MEM_LOCATION_TYPE_HOST) continue;
    if (description.location.type != CU_MEM_LOCATION_TYPE_DEVICE ||
        !driver()->device(description.location.id))
      return CUDA_ERROR_INVALID_VALUE;
    uint8_t flags = 0;
    switch (description.flags) {
      case CU_MEM_ACCESS_FLAGS_PROT_NONE:
        break;
      case CU_MEM_ACCESS_FLAGS_PROT_READ:
        flags = kReadable;
        break;
      case CU_MEM_ACCESS_FLAGS_PROT_READWRITE:
        flags = kReadable | kWritable;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
    int result = driver()->memory.set_access(address, size, description.location.id, flags);
    if (result != CUDA_SUCCESS)
      return refuse(static_cast<CUresult>(result), "%zu bytes at 0x%llx are not wholly mapped",
                    size, address);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address) {
  if (CUresult bad = enter()) return bad;
  if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE ||
      !driver()->device(location->id))
    return CUDA_ERROR_INVALID_VALUE;
  uint8_t open;
  if (int bad = driver()->memory.get_access(address, location->id, &open))
    return static_cast<CUresult>(bad);
  *flags = open & kWritable   ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
           : open & kReadable ? CU_MEM_ACCESS_FLAGS_PROT_READ
                              : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}

}  // extern "C"
