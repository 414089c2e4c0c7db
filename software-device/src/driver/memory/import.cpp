// Memory, shared with other processes.
#include <mutex>

#include "memory/memory.h"

namespace softdev::driver {

std::shared_ptr<Share> Memory::offer(uint64_t address, SharedKind kind, uint64_t pool,
                                     const CUuuid &device,
                                     const std::function<bool(const Region &)> &fits) {
  std::unique_lock guard(mutex_);
  auto *region = const_cast<Region *>(find(address));
  if (!region || region->kind != RegionKind::kDevice || !fits(*region)) return nullptr;
  if (region->share && region->share->name().kind == kind) return region->share;
  const PerDevice &owner = devices_[static_cast<size_t>(region->device)];
  Description description;
  description.device = device;
  description.offset = region->base % kGranule;
  description.size = region->size;
  description.extents = owner.arena->extents_of(region->base, region->size);
  if (description.extents.empty()) return nullptr;
  region->share = Share::offer(kind, owner.physical->file(), description, pool);
  return region->share;
}

uint64_t Memory::imported_again(const ShareName &name, uint64_t context) {
  std::unique_lock guard(mutex_);
  for (auto &[base, region] : regions_)
    if (region->kind == RegionKind::kImported && region->context == context &&
        region->name.process == name.process &&
        region->name.process_started == name.process_started && region->name.id == name.id) {
      region->opened++;
      return base;
    }
  return 0;
}

uint64_t Memory::import(const ShareName &name, const Description &description, const File &file,
                        int device, int user, uint64_t context, uint64_t pool) {
  uint64_t size = 0;
  for (const Extent &extent : description.extents) size += extent.size;
  uint64_t window = size ? reserve_addresses(size, kGranule) : 0;
  if (!window) return 0;
  auto granules = std::make_shared<Granules>(window, size);
  if (!granules->valid() || !map_file(file.number(), window, description.extents)) {
    release_addresses(window, size);
    return 0;
  }
  std::unique_lock guard(mutex_);
  Region region;
  region.kind = RegionKind::kImported;
  region.base = window + description.offset;
  region.size = description.size;
  region.device = device;
  region.context = context;
  region.pool = pool;
  region.name = name;
  region.opened = 1;
  region.window = window;
  region.window_size = size;
  region.access.resize(devices_.size());
  if (checks_ == Checks::kExact)
    granules->set(region.base, region.size, kReadable | kWritable);
  else
    granules->set(window, size, kReadable | kWritable);
  for (int reached : {device, user}) {
    auto index = static_cast<size_t>(reached);
    if (region.access[index]) continue;
    region.access[index] = granules;
    devices_[index].space->add(granules);
  }
  return add(std::move(region));
}

bool Memory::release_import(uint64_t base) {
  std::unique_lock guard(mutex_);
  auto found = regions_.find(base);
  if (found == regions_.end() || found->second->kind != RegionKind::kImported) return false;
  return found->second->opened == 0 || --found->second->opened == 0;
}

}  // namespace softdev::driver
