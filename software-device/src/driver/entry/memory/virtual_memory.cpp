// Entry points: virtual memory management.
#include <fcntl.h>
#include <unistd.h>

#include <mutex>

#include "abi_descriptor.h"
#include "entry/entry.h"
#include "entry/memory/sharing.h"

using namespace softdev::driver;

namespace {

std::mutex references_mutex;

// The places where CUDA has pieces of memory. "The node of the current thread" is none of them.
CUresult check_place(const CUmemAllocationProp &properties) {
  switch (properties.location.type) {
    case CU_MEM_LOCATION_TYPE_DEVICE:
      return driver()->device(properties.location.id) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
    case CU_MEM_LOCATION_TYPE_HOST:
      if (properties.requestedHandleTypes)
        return refuse(CUDA_ERROR_INVALID_VALUE, "memory of the host is not shared by handles");
      [[fallthrough]];
    case CU_MEM_LOCATION_TYPE_HOST_NUMA:
    case CU_MEM_LOCATION_TYPE_DEVICE_LOCALITY_DOMAIN:
      return refuse(CUDA_ERROR_NOT_SUPPORTED, "only memory of whole devices can be created");
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "memory of location type %d cannot be created",
                    properties.location.type);
  }
}

CUresult check_properties(const CUmemAllocationProp *properties) {
  if (!properties || properties->type != CU_MEM_ALLOCATION_TYPE_PINNED)
    return refuse(CUDA_ERROR_INVALID_VALUE, "only pinned allocations can be created");
  if (CUresult bad = check_place(*properties)) return bad;
  if (properties->requestedHandleTypes &
      ~static_cast<int>(CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR))
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "memory is shared by file descriptors only");
  return CUDA_SUCCESS;
}

CUmemGenericAllocationHandle add_reference(const std::shared_ptr<Allocation> &allocation) {
  std::lock_guard guard(references_mutex);
  if (allocation->references++ == 0) driver()->handles.add(allocation);
  return allocation->handle();
}

// Whether addresses at `at` are tried first.
bool follows_hint(CUdeviceptr at) {
  switch (driver()->settings.traits.hints) {
    case Hints::kAll:
      return true;
    case Hints::kIgnored:
      return false;
    case Hints::kLow:
      return at < kHighHints;
    case Hints::kHigh:
      return at >= kHighHints;
  }
  return true;
}

void drain_all() {
  for (const auto &device : driver()->devices) device->drain();
}

CUresult create(CUmemGenericAllocationHandle *handle, size_t size, Device &device, bool shareable) {
  PhysicalMemory &physical = driver()->memory.physical(device.ordinal);
  auto none_left = [&] {
    return refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes are asked for, %llu are free", size,
                  static_cast<unsigned long long>(driver()->memory.free_bytes(device.ordinal)));
  };
  if (shareable) {
    // A file of its own: whoever gets its descriptor gets nothing else.
    std::shared_ptr<File> file = create_shared_file(size, device.uuid());
    if (!file || !physical.charge(size)) return none_left();
    auto allocation = std::make_shared<Allocation>(&physical, device.ordinal, size);
    allocation->file = std::move(file);
    allocation->extents = {{0, size}};
    *handle = add_reference(allocation);
    return CUDA_SUCCESS;
  }
  auto allocation = std::make_shared<Allocation>(&physical, device.ordinal, size);
  if (!physical.take(size, &allocation->extents)) return none_left();
  *handle = add_reference(allocation);
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *properties,
                                       CUmemAllocationGranularity_flags option) {
  if (CUresult bad = enter()) return bad;
  if (!granularity || static_cast<unsigned>(option) > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  if (CUresult bad = check_properties(properties)) return bad;
  *granularity = driver()->memory.granularity();
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t alignment, CUdeviceptr at,
                             unsigned long long flags) {
  if (CUresult bad = enter()) return bad;
  const uint64_t granule = driver()->memory.granularity();
  if (!address || !size || size % granule || flags || at % granule || (alignment & (alignment - 1)))
    return refuse(CUDA_ERROR_INVALID_VALUE, "sizes and addresses are multiples of %llu KiB",
                  static_cast<unsigned long long>(granule >> 10));
  return guarded([&] {
    const bool own = driver()->settings.traits.hints != Hints::kAll;
    *address = driver()->memory.reserve(size, std::max<size_t>(alignment, granule),
                                        follows_hint(at) ? at : 0, own ? kOwnAddresses : 0);
    return *address ? CUDA_SUCCESS
                    : refuse(CUDA_ERROR_OUT_OF_MEMORY, "%zu bytes of addresses", size);
  });
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  if (CUresult bad = enter()) return bad;
  Driver &all = *driver();
  // What is refused is refused at once.
  if (all.memory.may_free_reservation(address, size)) drain_all();
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
  const uint64_t granule = driver()->memory.granularity();
  if (!handle || !size || size % granule || flags)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the size is not a multiple of %llu KiB",
                  static_cast<unsigned long long>(granule >> 10));
  if (CUresult bad = check_properties(properties)) return bad;
  return guarded([&] {
    return create(handle, size, *driver()->device(properties->location.id),
                  properties->requestedHandleTypes != CU_MEM_HANDLE_TYPE_NONE);
  });
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
  if (allocation->file) properties->requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  if (CUresult bad = enter()) return bad;
  auto allocation = driver()->handles.find<Allocation>(handle);
  if (!shared || !allocation || flags) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "memory is shared by file descriptors only");
  if (!allocation->file)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the memory was not created to be shared");
  int number = fcntl(allocation->file->number(), F_DUPFD_CLOEXEC, ABI_DESCRIPTOR_LEAST);
  if (number < 0) return refuse(CUDA_ERROR_OPERATING_SYSTEM, "no file descriptor is left");
  if (driver()->settings.traits.slow_export) usleep(1000);
  *static_cast<int *>(shared) = number;
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                        CUmemAllocationHandleType type) {
  if (CUresult bad = enter()) return bad;
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "memory is shared by file descriptors only");
  return guarded([&]() -> CUresult {
    uint64_t size;
    CUuuid uuid;
    auto number = reinterpret_cast<intptr_t>(shared);
    if (number < 0 || number > INT32_MAX) return CUDA_ERROR_INVALID_VALUE;
    auto file = adopt_shared_file(static_cast<int>(number), &size, &uuid);
    if (!file)
      return refuse(CUDA_ERROR_INVALID_VALUE, "descriptor %d is of no such memory",
                    static_cast<int>(number));
    Device *device = device_of(uuid);
    if (!device) return refuse(CUDA_ERROR_INVALID_DEVICE, "its device is not visible here");
    auto allocation = std::make_shared<Allocation>(nullptr, device->ordinal, size);
    allocation->file = std::move(file);
    allocation->extents = {{0, size}};
    *handle = add_reference(allocation);
    return CUDA_SUCCESS;
  });
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
