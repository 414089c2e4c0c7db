#include "memory/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "cuda_driver.h"

namespace softdev::driver {
namespace {

constexpr uint64_t kSmallestWindow = uint64_t{64} << 30, kHostWindow = uint64_t{1} << 40;
constexpr uint64_t kHostPage = 4096;
// Of first contexts' memory. Below where processes map things, from whichever end they begin,
// and away from powers of two, which programs like to ask for.
constexpr uint64_t kFirstPlace = uint64_t{5} << 43, kBetweenPlaces = uint64_t{1} << 40;

// Whether the program's pages [first, end) are mapped, and at least the outer ones readable, or
// writable too: the kernel finds the holes when it has nothing to write back, and says what cannot
// be done to a page when it is asked to make it ready for that (Linux 5.14).
bool is_open(uint64_t first, uint64_t end, bool to_write) {
  const auto page = [](uint64_t address) { return reinterpret_cast<void *>(address); };
  if (msync(page(first), end - first, MS_ASYNC)) return false;
#ifdef MADV_POPULATE_WRITE
  const int advice = to_write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ;
  alignas(kHostPage) static uint8_t asks[kHostPage];
  return (!madvise(page(first), kHostPage, advice) &&
          !madvise(page(end - kHostPage), kHostPage, advice)) ||
         madvise(asks, sizeof asks, MADV_POPULATE_WRITE);
#else
  (void)to_write;
  return true;
#endif
}

// The arena owns its flags; the spaces share them.
std::shared_ptr<Granules> window_of(const std::shared_ptr<Arena> &arena) {
  return {arena, const_cast<Granules *>(&arena->granules())};
}

}  // namespace

bool Memory::create(const std::vector<uint64_t> &devices, bool residue, uint64_t granularity,
                    Checks checks) {
  checks_ = checks;
  granularity_ = granularity;
  host_ = Arena::create(kHostWindow, nullptr, checks);
  if (!host_) return false;
  for (uint64_t bytes : devices) {
    PerDevice device;
    device.physical = std::make_unique<PhysicalMemory>(bytes, residue);
    device.arena =
        Arena::create(std::max(kSmallestWindow, bytes * 4), device.physical.get(), checks);
    if (!device.arena) return false;
    device.space = std::make_unique<Space>(this);
    device.space->add(window_of(device.arena));
    device.space->add(window_of(host_));
    devices_.push_back(std::move(device));
  }
  return true;
}

void Memory::begin_context(int device, int place) {
  std::unique_lock guard(mutex_);
  if (std::exchange(had_context_, true) || place < 0) return;
  PerDevice &at = devices_[static_cast<size_t>(device)];
  if (!at.arena->untouched()) return;
  std::shared_ptr<Arena> fixed =
      Arena::create(at.arena->granules().window().size, at.physical.get(), checks_,
                    kFirstPlace + static_cast<uint64_t>(place) * kBetweenPlaces);
  if (!fixed) return;
  const Window old = at.arena->granules().window();
  at.space->remove(&at.arena->granules());
  at.arena = std::move(fixed);
  at.space->add(window_of(at.arena));
  release_addresses(old.base, old.size);
}

uint64_t Memory::free_bytes(int device) const {
  std::shared_lock guard(mutex_);
  const PerDevice &at = devices_[static_cast<size_t>(device)];
  return at.physical->total() - at.physical->used() + at.arena->spare();
}

uint64_t Memory::add(Region region) {
  region.id = next_id_++;
  uint64_t base = region.base;
  regions_[base] = std::shared_ptr<Region>(new Region(std::move(region)), [this](Region *gone) {
    unmap_destroyed(*gone);
    delete gone;
  });
  return base;
}

uint64_t Memory::allocate_device(int device, uint64_t size, uint64_t align, uint64_t context,
                                 RegionKind kind, uint8_t flags, bool variable) {
  std::unique_lock guard(mutex_);
  uint64_t base = devices_[static_cast<size_t>(device)].arena->allocate(size, align, flags);
  if (!base) {
    refused_ = size;
    return 0;
  }
  Region region;
  region.kind = kind;
  region.base = base;
  region.size = size;
  region.device = device;
  region.context = context;
  region.variable = variable;
  return add(std::move(region));
}

uint64_t Memory::reserve_device(int device, uint64_t size, uint64_t context, uint64_t *id) {
  std::unique_lock guard(mutex_);
  Arena &arena = *devices_[static_cast<size_t>(device)].arena;
  Region region;
  region.base = arena.reserve(size, &region.backed);
  if (!region.base) return 0;
  region.size = size;
  region.device = device;
  region.context = context;
  region.graph = true;
  *id = next_id_;
  return add(std::move(region));
}

bool Memory::back(uint64_t base, uint64_t id) {
  std::unique_lock guard(mutex_);
  auto found = regions_.find(base);
  if (found == regions_.end() || found->second->id != id) return false;
  Region &region = *found->second;
  if (!region.backed) region.backed = arena_of(region)->back(base, region.size);
  return region.backed;
}

void Memory::unback(uint64_t base, uint64_t id) {
  std::unique_lock guard(mutex_);
  auto found = regions_.find(base);
  if (found == regions_.end() || found->second->id != id) return;
  Region &region = *found->second;
  region.backed = !arena_of(region)->unback(base, region.size);
  removals_.fetch_add(1, std::memory_order_relaxed);
}

uint64_t Memory::allocate_host(uint64_t size, RegionKind kind, int device, uint64_t context,
                               unsigned flags, uint64_t align, bool variable) {
  std::unique_lock guard(mutex_);
  uint64_t base = host_->allocate(size, align);
  if (!base) return 0;
  Region region;
  region.kind = kind;
  region.base = base;
  region.size = size;
  region.device = device;
  region.context = context;
  region.flags = flags;
  region.variable = variable;
  return add(std::move(region));
}

int Memory::register_host(uint64_t base, uint64_t size, uint64_t context, unsigned flags) {
  const uint64_t first = base & ~(kHostPage - 1), end = round_up(base + size, kHostPage);
  if (end < base) return CUDA_ERROR_INVALID_VALUE;
  if (!is_open(first, end, !(flags & CU_MEMHOSTREGISTER_READ_ONLY)))
    return CUDA_ERROR_INVALID_VALUE;
  std::unique_lock guard(mutex_);
  auto after = regions_.upper_bound(base);
  if (after != regions_.end() && after->first < base + size)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  if (after != regions_.begin()) {
    const Region &before = *std::prev(after)->second;
    if (before.base + before.size > base) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  Region region;
  region.kind = RegionKind::kRegistered;
  region.base = base;
  region.size = size;
  region.context = context;
  region.flags = flags;
  const bool exact = checks_ == Checks::kExact;
  auto window = std::make_shared<Granules>(exact ? base : first, exact ? size : end - first);
  if (!window->valid()) return CUDA_ERROR_OUT_OF_MEMORY;
  if (exact)
    window->set_among_others(base, size, kReadable | kWritable);
  else
    window->set(first, end - first, kReadable | kWritable);
  for (PerDevice &device : devices_) device.space->add(window);
  region.access.assign(devices_.size(), window);
  add(std::move(region));
  return CUDA_SUCCESS;
}

std::shared_ptr<Region> Memory::remove(uint64_t base,
                                       const std::function<bool(const Region &)> &fits) {
  std::unique_lock guard(mutex_);
  auto found = regions_.find(base);
  if (found == regions_.end() || !fits(*found->second)) return nullptr;
  std::shared_ptr<Region> region = std::move(found->second);
  regions_.erase(found);
  region->share = nullptr;  // work may use it for a while, but nobody opens it any more
  leaving_.emplace(base, region);
  removals_.fetch_add(1, std::memory_order_relaxed);
  return region;
}

void Memory::remember_freed(const Region &region) {
  if (freed_.size() == kRemembered) freed_.pop_back();
  freed_.emplace_front(region.base, region.size);
}

Arena *Memory::arena_of(const Region &region) const {
  switch (region.kind) {
    case RegionKind::kDevice:
    case RegionKind::kArray:
      return devices_[static_cast<size_t>(region.device)].arena.get();
    case RegionKind::kHost:
    case RegionKind::kManaged:
      return host_.get();
    default:
      return nullptr;
  }
}

void Memory::destroy(std::shared_ptr<Region> region, const std::function<void()> &settle) {
  Arena *arena = arena_of(*region);
  {
    std::unique_lock guard(mutex_);
    auto [first, last] = leaving_.equal_range(region->base);
    leaving_.erase(std::find_if(first, last, [&](const auto &at) { return at.second == region; }));
    remember_freed(*region);
    if (arena) region->retired = arena->release(region->base, region->size);
    for (size_t i = 0; i < region->access.size(); i++) {
      if (!region->access[i]) continue;
      region->access[i]->close();
      devices_[i].space->remove(region->access[i].get());
    }
  }
  if (!arena || !region->retired.empty()) settle();
  region->destroyed = true;
}

// Called without the lock: who queued work held the region, and has let it go.
void Memory::unmap_destroyed(const Region &region) {
  if (!region.destroyed) return;
  if (region.kind == RegionKind::kImported) release_addresses(region.window, region.window_size);
  if (region.retired.empty()) return;
  std::unique_lock guard(mutex_);
  for (const Arena::Retired &part : region.retired) arena_of(region)->reclaim(part);
}

void Memory::open_to_peer(int device, int peer, bool open) {
  std::unique_lock guard(mutex_);
  Space &space = *devices_[static_cast<size_t>(device)].space;
  std::shared_ptr<Granules> window = window_of(devices_[static_cast<size_t>(peer)].arena);
  if (open)
    space.add(window);
  else
    space.remove(window.get());
}

bool Memory::advise(uint64_t address, uint64_t size, const std::function<void(Advice &)> &how) {
  std::unique_lock guard(mutex_);
  auto *region = const_cast<Region *>(find(address));
  if (!region || region->kind != RegionKind::kManaged) return false;
  uint64_t offset = address - region->base;
  if (size > region->size - offset) return false;
  region->advice.change(offset, offset + size, how);
  return true;
}

std::shared_ptr<const Region> Memory::hold(uint64_t address) const {
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return nullptr;
  const std::shared_ptr<Region> &region = std::prev(after)->second;
  return address - region->base < region->size ? region : nullptr;
}

const Region *Memory::find(uint64_t address) const {
  auto after = regions_.upper_bound(address);
  if (after == regions_.begin()) return nullptr;
  const Region &region = *std::prev(after)->second;
  return address - region.base < region.size ? &region : nullptr;
}

bool Memory::in_arena(uint64_t address) const {
  if (host_->contains(address)) return true;
  return std::any_of(devices_.begin(), devices_.end(),
                     [&](const PerDevice &device) { return device.arena->contains(address); });
}

bool Memory::covers(uint64_t address, uint64_t size) const {
  const Region *region = find(address);
  if (region && !region->backed) return size <= region->size - (address - region->base);
  return copyable(address, size);
}

bool Memory::copyable(uint64_t address, uint64_t size) const {
  const Region *region = find(address);
  if (!region || !region->backed || size > region->size - (address - region->base)) return false;
  if (region->kind != RegionKind::kReservation) return true;
  // Every part must be mapped, and some device must have been let in.
  for (uint64_t at = address; at < address + size;) {
    auto after = region->mappings.upper_bound(at);
    if (after == region->mappings.begin()) return false;
    auto mapping = std::prev(after);
    if (at - mapping->first >= mapping->second.size) return false;
    bool open = std::any_of(region->access.begin(), region->access.end(),
                            [&](const auto &granules) { return granules->get(at) != 0; });
    if (!open) return false;
    at = (at | (std::min(granularity_, kGranule) - 1)) + 1;
  }
  return true;
}

int device_of(const Region &region, uint64_t address) {
  if (region.kind != RegionKind::kReservation) return region.device;
  auto after = region.mappings.upper_bound(address);
  if (after == region.mappings.begin()) return -1;
  const auto &[base, mapping] = *std::prev(after);
  return address - base < mapping.size ? mapping.allocation->device : -1;
}

bool Memory::holds(uint64_t address, uint64_t size) const {
  std::shared_lock guard(mutex_);
  auto inside = [&](const Region &region) {
    uint64_t offset = address - region.base;
    return offset < region.size && size <= region.size - offset;
  };
  const Region *region = find(address);
  if (region && inside(*region)) return true;
  auto after = leaving_.upper_bound(address);
  return after != leaving_.begin() && inside(*std::prev(after)->second);
}

std::string Memory::describe(uint64_t address) const {
  std::shared_lock guard(mutex_);
  std::string text = place_of(address);
  if (refused_)
    text += "; " + std::to_string(refused_) + " bytes were asked for before, and refused";
  return text;
}

std::string Memory::place_of(uint64_t address) const {
  static constexpr const char *kinds[] = {
      "device memory",          "pinned host memory", "registered host memory",   "managed memory",
      "an address reservation", "an array",           "memory of another process"};
  const Region *nearest = nullptr;
  uint64_t distance = UINT64_MAX;
  auto after = regions_.upper_bound(address);
  if (after != regions_.end()) {
    nearest = after->second.get();
    distance = nearest->base - address;
  }
  bool behind = false;
  if (after != regions_.begin()) {
    const Region *before = std::prev(after)->second.get();
    uint64_t end = before->base + before->size;
    uint64_t past = address < end ? 0 : address - end;
    if (past <= distance) {
      nearest = before;
      distance = past;
      behind = true;
    }
  }
  char text[200];
  bool inside = behind && distance == 0 && address - nearest->base < nearest->size;
  for (auto [base, size] : freed_) {
    // What begins right behind an allocation is likelier to be that one's.
    if ((behind && distance < kNear) || address - base >= size) continue;
    snprintf(text, sizeof text, "it lies in %llu bytes at 0x%llx that were freed",
             static_cast<unsigned long long>(size), static_cast<unsigned long long>(base));
    return text;
  }
  if (!nearest) return "nothing is allocated";
  const char *kind = kinds[static_cast<int>(nearest->kind)];
  if (inside)
    snprintf(text, sizeof text, "it lies in %s of %llu bytes at 0x%llx, which is not open there",
             kind, static_cast<unsigned long long>(nearest->size),
             static_cast<unsigned long long>(nearest->base));
  else
    snprintf(text, sizeof text, "the nearest is %s of %llu bytes at 0x%llx, %llu bytes %s", kind,
             static_cast<unsigned long long>(nearest->size),
             static_cast<unsigned long long>(nearest->base),
             static_cast<unsigned long long>(distance), behind ? "before" : "after it");
  return text;
}

std::vector<uint64_t> Memory::owned_by(uint64_t context) const {
  std::shared_lock guard(mutex_);
  std::vector<uint64_t> bases;
  for (const auto &[base, region] : regions_)
    if (region->context == context) bases.push_back(base);
  return bases;
}

void Memory::set_pool(uint64_t address, uint64_t handle, std::shared_ptr<const void> pool) {
  std::unique_lock guard(mutex_);
  auto found = regions_.find(address);
  if (found == regions_.end()) return;
  found->second->pool = handle;
  found->second->of_pool = std::move(pool);
}

}  // namespace softdev::driver
