// Memory that sessions share: theirs made shareable, and that of others.
#include <cstdint>

#include "base/session_limits.h"
#include "memory/memory.h"
#include "wire.h"

namespace outboard {

namespace {

CUresult export_memory(const Driver &driver, CUmemGenericAllocationHandle memory, int *fd) {
  return driver.cuMemExportToShareableHandle(fd, memory, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                                             0);
}

}  // namespace

bool Memory::is_shareable(uint64_t address) const {
  auto found = ranges_.find(address);
  return found != ranges_.end() && (found->second.shared || found->second.lendable);
}

CUresult Memory::share(uint64_t handle, Shared *shared, int *fd) {
  Physical *found = physicals_.find(handle);
  if (!found || !(found->shareable || found->imported)) return CUDA_ERROR_INVALID_VALUE;
  found->shared = true;
  shared->size = found->size;
  if (found->imported) shared->owner = *found->imported;
  return export_memory(driver_, found->memory, fd);
}

// Only memory that was made for it can be shared. So what is mapped becomes, once, another piece of
// memory with the same bytes, at the same addresses; the device is at rest.
CUresult Memory::share_mapping(uint64_t address, Shared *shared, int *fd) {
  Range &range = ranges_.find(address)->second;
  shared->size = range.size;
  if (!range.shared && !range.lendable) {
    if (shareable_count_ == session_limits.shareable) return CUDA_ERROR_OUT_OF_MEMORY;
    if (CUresult result = exchange(address, &range); result != CUDA_SUCCESS) return result;
    range.shareable = true;
    ++shareable_count_;
  }
  range.shared = true;
  return export_memory(driver_, range.memory, fd);
}

CUresult Memory::exchange(uint64_t address, Range *range) {
  const uint64_t size = range->size;
  CUmemGenericAllocationHandle fresh;
  CUresult result = create(size, true, &fresh);
  if (result != CUDA_SUCCESS) return result;
  CUdeviceptr aside = 0;
  result = driver_.cuMemAddressReserve(&aside, size, limits_.granule, 0, 0);
  if (result == CUDA_SUCCESS) {
    result = map_whole(aside, size, fresh);
    if (result == CUDA_SUCCESS) {
      result = scrubber_.copy(aside, address, size);
      if (result == CUDA_SUCCESS) result = scrubber_.wait();
      driver_.cuMemUnmap(aside, size);
    }
    driver_.cuMemAddressFree(aside, size);
  }
  if (result == CUDA_SUCCESS) result = driver_.cuMemUnmap(address, size);
  if (result != CUDA_SUCCESS) {
    driver_.cuMemRelease(fresh);  // what it has is the session's, and nowhere else yet
    return result;
  }
  result = map_whole(address, size, fresh);
  if (result != CUDA_SUCCESS) {
    // The old one again; if that fails, too, the addresses lead nowhere.
    keep_first(unscrubbed_, result);
    map_whole(address, size, range->memory);
    return result;
  }
  const CUmemGenericAllocationHandle old = range->memory;
  range->memory = fresh;
  taken_.fetch_add(size, std::memory_order_relaxed);  // until the old one is overwritten
  return scrub_apart(size, old);
}

CUresult Memory::import(uint64_t handle, const Shared &shared, int fd) {
  const uint64_t size = shared.size;
  if (size % limits_.granule || size == 0) return CUDA_ERROR_INVALID_HANDLE;
  if (physical_count_ == session_limits.physicals || size > left()) return CUDA_ERROR_OUT_OF_MEMORY;
  CUmemGenericAllocationHandle memory;
  void *const descriptor = reinterpret_cast<void *>(static_cast<intptr_t>(fd));
  const CUresult result = driver_.cuMemImportFromShareableHandle(
      &memory, descriptor, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (result != CUDA_SUCCESS) return result;
  physicals_.keep(handle, {memory, size, 0, false, handle, false, shared.owner});
  ++physical_count_;
  // It keeps the other's memory alive, so it counts, here as there.
  mapped_ += size;
  return CUDA_SUCCESS;
}

// Memory of another session is left as it is, unless that session has given it up.
CUresult Memory::drop(const Physical &physical) {
  if (physical.shared) Offers::own().withdraw(sharer_.session, physical.handle);
  if (!physical.imported) return scrub_apart(physical.size, physical.memory, physical.loan);
  if (Offers::own().is_owned(*physical.imported, sharer_)) {
    return driver_.cuMemRelease(physical.memory);
  }
  taken_.fetch_add(physical.size, std::memory_order_relaxed);
  return scrub_apart(physical.size, physical.memory);
}

}  // namespace outboard
