// The library, devices, the context and memory.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "device.h"

using namespace fake;

namespace {

bool all_zero(int fd, uint64_t size) {
  void *view = mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (view == MAP_FAILED) abort();
  const auto *bytes = static_cast<const unsigned char *>(view);
  const bool zero = bytes[0] == 0 && memcmp(bytes, bytes + 1, size - 1) == 0;
  munmap(view, size);
  return zero;
}

}  // namespace

EXPORT CUresult cuInit(unsigned) {
  ENTER;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxSetFlags_v2(CUdevice, unsigned) {
  ENTER;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDriverGetVersion(int *version) {
  *version = driver_version;
  return CUDA_SUCCESS;
}
// It knows few, one of them newer than any header, and calls that one more than is sent of a text.
EXPORT CUresult cuGetErrorName(CUresult result, const char **name) {
  const int number = result;
  *name = number >= 0 && number < 3 ? "CUDA_ERROR_FAKE"
          : number == 998           ? "CUDA_ERROR_NEW"
                                    : nullptr;
  return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuGetErrorString(CUresult result, const char **text) {
  static const std::string new_text(300, 'n');
  const int number = result;
  *text = number >= 0 && number < 3 ? "an error of the fake driver"
          : number == 998           ? new_text.c_str()
                                    : nullptr;
  return *text ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}
EXPORT CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ENTER;
  *device = ordinal;
  return ordinal == 0 || ordinal == 1 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}
EXPORT CUresult cuDeviceGetCount(int *count) {
  ENTER;
  *count = 2;
  return CUDA_SUCCESS;
}
// The second is there to be a peer.
EXPORT CUresult cuDeviceCanAccessPeer(int *can, CUdevice, CUdevice) {
  ENTER;
  *can = 1;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute, CUdevice, CUdevice) {
  ENTER;
  *value = 0;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetName(char *name, int size, CUdevice) {
  ENTER;
  snprintf(name, static_cast<size_t>(size), "Fake device");
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetUuid_v2(CUuuid *uuid, CUdevice device) {
  ENTER;
  memset(uuid, 7 + device, sizeof *uuid);
  return CUDA_SUCCESS;
}
// The second is an instance in MIG mode.
EXPORT CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice device) {
  ENTER;
  memset(uuid, device == 0 ? 7 : 100, sizeof *uuid);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice) {
  ENTER;
  if (attribute == 17) return CUDA_ERROR_INVALID_VALUE;
  *value = attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_MODE ? compute_mode.load()
                                                         : static_cast<int>(attribute) * 2;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice) {
  ENTER;
  *bytes = memory_total;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDeviceGetPCIBusId(char *text, int size, CUdevice) {
  ENTER;
  snprintf(text, static_cast<size_t>(size), "0000:42:00.0");
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice) {
  ENTER;
  *context = reinterpret_cast<CUcontext>(&legacy_stream);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuDevicePrimaryCtxRelease_v2(CUdevice) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxSetCurrent(CUcontext) { return CUDA_SUCCESS; }
EXPORT CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
  ENTER;
  if (!limits.count(limit)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = limits[limit];
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  ENTER;
  if (!limits.count(limit)) return CUDA_ERROR_UNSUPPORTED_LIMIT;
  limits[limit] = value;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  ENTER;
  *least = 0;
  *greatest = -5;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuCtxSynchronize() {
  ENTER;
  changed.wait(lock, [] { return operations.empty(); });
  return sticky;
}

// ---- memory
// ----------------------------------------------------------------------------------------

EXPORT CUresult cuMemGetInfo_v2(size_t *free, size_t *total) {
  ENTER;
  *free = memory_total - memory_used;
  *total = memory_total;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemGetAllocationGranularity(size_t *granularity, const CUmemAllocationProp *,
                                              CUmemAllocationGranularity_flags) {
  ENTER;
  *granularity = 2 << 20;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressReserve(CUdeviceptr *address, size_t size, size_t, CUdeviceptr hint,
                                    unsigned long long) {
  ENTER;
  void *view =
      mmap(at(hint), size, PROT_NONE,
           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (hint ? MAP_FIXED_NOREPLACE : 0), -1, 0);
  if (view == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<uint64_t>(view);
  reservations[*address] = size;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAddressFree(CUdeviceptr address, size_t size) {
  ENTER;
  if (reservations.erase(address) == 0) return CUDA_ERROR_INVALID_VALUE;
  munmap(at(address), size);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size,
                            const CUmemAllocationProp *, unsigned long long) {
  ENTER;
  if (size > memory_total - memory_used) return CUDA_ERROR_OUT_OF_MEMORY;
  const int fd = memfd_create("fake", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, static_cast<off_t>(size)) < 0) return CUDA_ERROR_OUT_OF_MEMORY;
  memory_used += size;
  *handle = next_memory++;
  memories[*handle] = {fd, size, false};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  ENTER;
  auto found = memories.find(handle);
  if (found == memories.end()) return CUDA_ERROR_INVALID_VALUE;
  if (!found->second.imported) {
    if (!all_zero(found->second.fd, found->second.size)) ++dirty;
    memory_used -= found->second.size;
  }
  close(found->second.fd);
  memories.erase(found);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemExportToShareableHandle(void *shared, CUmemGenericAllocationHandle handle,
                                             CUmemAllocationHandleType, unsigned long long) {
  ENTER;
  auto found = memories.find(handle);
  if (found == memories.end()) return CUDA_ERROR_INVALID_VALUE;
  *static_cast<int *>(shared) = fcntl(found->second.fd, F_DUPFD_CLOEXEC, 3);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *handle, void *shared,
                                               CUmemAllocationHandleType) {
  ENTER;
  const int fd = fcntl(static_cast<int>(reinterpret_cast<intptr_t>(shared)), F_DUPFD_CLOEXEC, 3);
  struct stat about;
  if (fd < 0 || fstat(fd, &about) != 0) return CUDA_ERROR_INVALID_VALUE;
  *handle = next_memory++;
  memories[*handle] = {fd, static_cast<uint64_t>(about.st_size), true};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t size) {
  ENTER;
  void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<uint64_t>(memory);
  memories[next_memory] = {-1, size, false};
  mappings[*address] = {next_memory++, size, true};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemFree_v2(CUdeviceptr address) {
  ENTER;
  auto found = mappings.find(address);
  if (found == mappings.end()) return CUDA_ERROR_INVALID_VALUE;
  munmap(at(address), found->second.size);
  memories.erase(found->second.memory);
  mappings.erase(found);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemMap(CUdeviceptr address, size_t size, size_t offset,
                         CUmemGenericAllocationHandle handle, unsigned long long) {
  ENTER;
  auto found = memories.find(handle);
  if (found == memories.end() || offset > found->second.size ||
      size > found->second.size - offset) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto next = mappings.lower_bound(address + size);
  if (next != mappings.begin() && (--next)->first + next->second.size > address) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  void *view = mmap(at(address), size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    found->second.fd, static_cast<off_t>(offset));
  if (view == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  mappings[address] = {handle, size, false};
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemUnmap(CUdeviceptr address, size_t size) {
  ENTER;
  auto found = mappings.find(address);
  if (found == mappings.end() || found->second.size != size) return CUDA_ERROR_INVALID_VALUE;
  // A driver may wait for the whole device here.
  changed.wait(lock, [] {
    return std::none_of(operations.begin(), operations.end(),
                        [](const Operation &o) { return o.state == Operation::kCalled; });
  });
  mappings.erase(address);
  mmap(at(address), size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
       0);
  return CUDA_SUCCESS;
}
// Of whole mappings only.
EXPORT CUresult cuMemSetAccess(CUdeviceptr address, size_t size, const CUmemAccessDesc *access,
                               size_t) {
  ENTER;
  for (auto next = mappings.find(address); size > 0; ++next) {
    if (next == mappings.end() || next->first != address || next->second.size > size) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    next->second.open = access->flags != CU_MEM_ACCESS_FLAGS_PROT_NONE;
    address += next->second.size;
    size -= next->second.size;
  }
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *,
                               CUdeviceptr address) {
  ENTER;
  auto after = mappings.upper_bound(address);
  if (after == mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
  const auto &[start, mapping] = *std::prev(after);
  if (address - start >= mapping.size) return CUDA_ERROR_INVALID_VALUE;
  *flags = mapping.open ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostAlloc(void **memory, size_t size, unsigned) {
  ENTER;
  const size_t whole = (size + 4095) & ~size_t{4095};
  *memory = aligned_alloc(4096, whole);
  // As from the system: tests that look for what sessions left behind must not find the
  // allocator's.
  memset(*memory, 0, whole);
  pinned[*memory] = size;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostRegister_v2(void *, size_t, unsigned) {
  ENTER;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMemHostUnregister(void *) { return CUDA_SUCCESS; }
EXPORT CUresult cuMemFreeHost(void *memory) {
  Lock lock(mutex);
  enter(__func__);  // where it may be held; it is freed whatever has failed
  pinned.erase(memory);
  free(memory);
  return CUDA_SUCCESS;
}
