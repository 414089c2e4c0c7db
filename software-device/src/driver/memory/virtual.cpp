// Memory, its virtual memory management: addresses and physical memory handled apart.
#include <mutex>

#include "cuda_driver.h"
#include "memory/memory.h"

namespace softdev::driver {
namespace {

// The part of an allocation's extents that begins at `offset` and is `size` long.
std::vector<Extent> slice(const std::vector<Extent> &extents, uint64_t offset, uint64_t size) {
  std::vector<Extent> parts;
  for (const Extent &extent : extents) {
    if (offset >= extent.size) {
      offset -= extent.size;
      continue;
    }
    uint64_t part = std::min(size, extent.size - offset);
    if (part) parts.push_back({extent.offset + offset, part});
    size -= part;
    offset = 0;
  }
  return parts;
}

}  // namespace

bool Memory::granular(uint64_t address, uint64_t size) const {
  return size && ((address | size) & (granularity_ - 1)) == 0 && size <= UINT64_MAX - address;
}

Allocation::~Allocation() {
  if (!physical) return;
  if (file)
    physical->discharge(size);
  else
    physical->give_back(extents);
}

bool Allocation::map(uint64_t address, const std::vector<Extent> &parts) const {
  return map_file(file ? file->number() : physical->file(), address, parts);
}

uint64_t Memory::reserve(uint64_t size, uint64_t align, uint64_t at, uint64_t from) {
  uint64_t base = at ? reserve_addresses(size, align, at) : 0;
  if (!base && from) base = reserve_addresses_from(from, size, align);
  if (!base) base = reserve_addresses(size, align);
  if (!base) return 0;
  std::unique_lock guard(mutex_);
  Region region;
  region.kind = RegionKind::kReservation;
  region.base = base;
  region.size = size;
  for (PerDevice &device : devices_) {
    auto window = std::make_shared<Granules>(base, size);
    if (!window->valid()) {
      for (size_t i = 0; i < region.access.size(); i++)
        devices_[i].space->remove(region.access[i].get());
      release_addresses(base, size);
      return 0;
    }
    device.space->add(window);
    region.access.push_back(std::move(window));
  }
  return add(std::move(region));
}

Region *Memory::find_reservation(uint64_t address, uint64_t size) {
  auto *region = const_cast<Region *>(find(address));
  if (!region || region->kind != RegionKind::kReservation ||
      size > region->size - (address - region->base))
    return nullptr;
  return region;
}

int Memory::map(uint64_t address, uint64_t size, uint64_t offset,
                std::shared_ptr<Allocation> allocation) {
  if (!granular(address, size) || (offset & (granularity_ - 1)) || offset > allocation->size ||
      size > allocation->size - offset)
    return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock guard(mutex_);
  Region *region = find_reservation(address, size);
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  auto after = region->mappings.lower_bound(address);
  if (after != region->mappings.end() && after->first < address + size)
    return CUDA_ERROR_INVALID_VALUE;  // part of it is mapped
  if (after != region->mappings.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second.size > address) return CUDA_ERROR_INVALID_VALUE;
  }
  if (!allocation->map(address, slice(allocation->extents, offset, size))) {
    unmap_to_reserved(address, size);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  region->mappings[address] = {size, offset, std::move(allocation)};
  return CUDA_SUCCESS;
}

// The reservation of these addresses, if they are whole mappings, one behind the other.
Region *Memory::find_mappings(uint64_t address, uint64_t size) {
  Region *region = find_reservation(address, size);
  if (!region) return nullptr;
  uint64_t at = address;
  for (auto mapping = region->mappings.find(address); at < address + size; ++mapping) {
    if (mapping == region->mappings.end() || mapping->first != at) return nullptr;
    at += mapping->second.size;
  }
  return at == address + size ? region : nullptr;
}

int Memory::unmap(uint64_t address, uint64_t size, const std::function<void()> &settle) {
  if (!granular(address, size)) return CUDA_ERROR_INVALID_VALUE;
  {
    std::shared_lock guard(mutex_);
    if (!find_mappings(address, size)) return CUDA_ERROR_INVALID_VALUE;
  }
  settle();  // kernels that run may use it to their end
  {
    std::unique_lock guard(mutex_);
    Region *region = find_mappings(address, size);
    if (!region) return CUDA_ERROR_INVALID_VALUE;
    for (auto &granules : region->access) granules->set(address, size, 0);
    removals_.fetch_add(1, std::memory_order_relaxed);
  }
  settle();                   // those that began before it was closed
  std::vector<Mapping> gone;  // physical memory is given back after the lock
  {
    std::unique_lock guard(mutex_);
    Region *region = find_reservation(address, size);
    if (!region) return CUDA_ERROR_INVALID_VALUE;
    auto first = region->mappings.lower_bound(address);
    auto last = region->mappings.lower_bound(address + size);
    for (auto mapping = first; mapping != last; ++mapping) gone.push_back(mapping->second);
    region->mappings.erase(first, last);
    unmap_to_reserved(address, size);
  }
  return CUDA_SUCCESS;
}

int Memory::set_access(uint64_t address, uint64_t size, int device, uint8_t flags) {
  if (!granular(address, size)) return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock guard(mutex_);
  Region *region = find_reservation(address, size);
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  for (uint64_t at = address; at < address + size;) {
    auto after = region->mappings.upper_bound(at);
    if (after == region->mappings.begin()) return CUDA_ERROR_INVALID_VALUE;
    auto mapping = std::prev(after);
    if (at - mapping->first >= mapping->second.size) return CUDA_ERROR_INVALID_VALUE;
    at = mapping->first + mapping->second.size;
  }
  region->access[static_cast<size_t>(device)]->set(address, size, flags);
  removals_.fetch_add(1, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

int Memory::get_access(uint64_t address, int device, uint8_t *flags) const {
  std::shared_lock guard(mutex_);
  const Region *region = find(address);
  if (!region) return CUDA_ERROR_INVALID_VALUE;
  if (region->kind == RegionKind::kReservation)
    *flags = region->access[static_cast<size_t>(device)]->get(address);
  else
    *flags = region->device == device || region->device < 0 ? kReadable | kWritable : 0;
  return CUDA_SUCCESS;
}

std::shared_ptr<Allocation> Memory::allocation_at(uint64_t address) const {
  std::shared_lock guard(mutex_);
  const Region *region = find(address);
  if (!region) return nullptr;
  auto after = region->mappings.upper_bound(address);
  if (after == region->mappings.begin()) return nullptr;
  auto mapping = std::prev(after);
  return address - mapping->first < mapping->second.size ? mapping->second.allocation : nullptr;
}

bool Memory::may_free_reservation(uint64_t address, uint64_t size) const {
  std::shared_lock guard(mutex_);
  return is_bare(regions_.find(address), size);
}

// Whether it is a whole reservation without mappings.
bool Memory::is_bare(Regions::const_iterator at, uint64_t size) const {
  return at != regions_.end() && at->second->kind == RegionKind::kReservation &&
         at->second->size == size && at->second->mappings.empty();
}

int Memory::free_reservation(uint64_t address, uint64_t size) {
  std::unique_lock guard(mutex_);
  auto found = regions_.find(address);
  if (!is_bare(found, size)) return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < devices_.size(); i++)
    devices_[i].space->remove(found->second->access[i].get());
  regions_.erase(found);
  release_addresses(address, size);
  return CUDA_SUCCESS;
}

}  // namespace softdev::driver
