#include "memory/arena.h"

#include <sys/mman.h>

#include <algorithm>
#include <iterator>

namespace softdev::driver {

std::unique_ptr<Arena> Arena::create(uint64_t window, PhysicalMemory *physical, Checks checks,
                                     uint64_t at) {
  // Address space may be limited (ulimit -v): take less then.
  for (; window >= kGranule * 16; window /= 2) {
    uint64_t base = reserve_addresses(window, kGranule, at);
    if (!base) continue;
    auto granules = std::make_unique<Granules>(base, window);
    if (!granules->valid()) {
      release_addresses(base, window);
      continue;
    }
    auto arena = std::make_unique<Arena>();
    arena->physical_ = physical;
    arena->checks_ = checks;
    arena->granules_ = std::move(granules);
    arena->addresses_.add(base, window);
    return arena;
  }
  return nullptr;
}

// Behind what is held to its bytes nothing follows at once, or the first bytes of a neighbour would
// hide that a kernel goes too far.
uint64_t Arena::room_of_small(uint64_t size) const {
  return round_up(size, 512) + (checks_ == Checks::kExact ? 512 : 0);
}

// Where nothing is allocated, addresses are given as if nothing had ever been: who makes the same
// in the same order gets the same. A first slab that is spare need not go for a small part of it.
void Arena::begin_anew(bool small) {
  const Window &window = granules_->window();
  if (!spare_ || addresses_.total() != window.size - kGranule) return;
  if (!small || spare_ != window.base) drop_spare();
}

uint64_t Arena::allocate(uint64_t size, uint64_t align, uint8_t flags) {
  if (size == 0 || size > (uint64_t{1} << 46)) return 0;
  bool apart = checks_ == Checks::kPages && flags != (kReadable | kWritable);
  uint64_t address;
  begin_anew(size <= kSmall && !apart);
  if (size <= kSmall && !apart) {
    address = allocate_small(room_of_small(size), align < 512 ? 512 : align);
  } else {
    address = allocate_large(round_up(size, kGranule));
    if (!address && spare_) {
      drop_spare();
      address = allocate_large(round_up(size, kGranule));
    }
  }
  if (!address) return 0;
  if (checks_ == Checks::kExact)
    granules_->set(address, size, flags);
  else if (apart || size > kSmall)
    granules_->set(address, round_up(size, kGranule), flags);
  if (apart) apart_.insert(address);
  return address;
}

uint64_t Arena::reserve(uint64_t size, bool *backed) {
  if (size == 0 || size > (uint64_t{1} << 46)) return 0;
  *backed = size <= kSmall;
  if (*backed) return allocate(size);
  begin_anew(false);
  return addresses_.take(round_up(size, kGranule) + kGranule, kGranule).value_or(0);
}

bool Arena::back(uint64_t base, uint64_t size) {
  uint64_t whole = round_up(size, kGranule);
  if (!commit(base, whole)) {
    if (!spare_) return false;
    drop_spare();
    if (!commit(base, whole)) return false;
  }
  granules_->set(base, checks_ == Checks::kExact ? size : whole, kReadable | kWritable);
  return true;
}

bool Arena::unback(uint64_t base, uint64_t size) {
  if (size <= kSmall) return false;
  size = round_up(size, kGranule);
  granules_->set(base, size, 0);
  unmap_to_reserved(base, size);
  give_back(base);
  return true;
}

void Arena::give_back(uint64_t base) {
  auto extents = extents_.find(base);
  if (extents == extents_.end()) return;  // it had none yet
  physical_->give_back(extents->second);
  extents_.erase(extents);
}

bool Arena::commit(uint64_t base, uint64_t size) {
  if (physical_) {
    std::vector<Extent> extents;
    if (!physical_->take(size, &extents)) return false;
    if (!physical_->map(base, extents)) {
      unmap_to_reserved(base, size);
      physical_->give_back(extents);
      return false;
    }
    extents_[base] = std::move(extents);
  } else {
    void *at = mmap(reinterpret_cast<void *>(base), size, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (at == MAP_FAILED) {
      unmap_to_reserved(base, size);
      return false;
    }
  }
  return true;
}

uint64_t Arena::allocate_large(uint64_t size) {
  auto base = addresses_.take(size + kGranule, kGranule);
  if (!base) return 0;
  if (commit(*base, size)) return *base;
  addresses_.add(*base, size + kGranule);
  return 0;
}

uint64_t Arena::allocate_small(uint64_t size, uint64_t align) {
  auto address = small_.take(size, align);
  if (!address) {
    auto slab = addresses_.take(kGranule, kGranule);
    if (!slab) return 0;
    if (!commit(*slab, kGranule)) {
      addresses_.add(*slab, kGranule);
      return 0;
    }
    if (checks_ == Checks::kPages) granules_->set(*slab, kGranule, kReadable | kWritable);
    small_.add(*slab, kGranule);
    address = small_.take(size, align);
  }
  if (spare_ && *address<spare_ + kGranule && * address + size> spare_) spare_ = 0;
  return *address;
}

std::vector<Arena::Retired> Arena::release(uint64_t address, uint64_t size) {
  if (size > kSmall || apart_.erase(address)) {
    size = round_up(size, kGranule);
    granules_->set(address, size, 0);
    return {{address, size, true}};
  }
  if (checks_ == Checks::kExact) granules_->set(address, size, 0);
  return release_small(address, room_of_small(size));
}

std::vector<Arena::Retired> Arena::release_small(uint64_t address, uint64_t size) {
  small_.add(address, size);
  auto [base, length] = *small_.around(address);
  const uint64_t first = round_up(base, kGranule), end = base + length;
  std::vector<Retired> retired;
  auto retire = [&](uint64_t slab) {
    small_.take_at(slab, kGranule);
    granules_->set(slab, kGranule, 0);
    retired.push_back({slab, kGranule, false});
  };
  if (end < first + kGranule) return retired;  // no slab is wholly free
  // The first of all that are stays. One that was spare may lie among them, or anywhere else.
  const uint64_t was = spare_;
  if (!spare_ || first < spare_) spare_ = first;
  if (was >= end) retire(was);
  for (uint64_t slab = first; slab + kGranule <= end; slab += kGranule)
    if (slab != spare_) retire(slab);
  return retired;
}

std::vector<Extent> Arena::extents_of(uint64_t address, uint64_t size) const {
  std::vector<Extent> parts;
  uint64_t at = address & ~(kGranule - 1), end = round_up(address + size, kGranule);
  while (at < end) {
    auto after = extents_.upper_bound(at);
    if (after == extents_.begin()) return {};
    uint64_t offset = at - std::prev(after)->first;
    bool found = false;
    for (const Extent &extent : std::prev(after)->second) {
      if (offset >= extent.size) {
        offset -= extent.size;
        continue;
      }
      uint64_t part = std::min(extent.size - offset, end - at);
      parts.push_back({extent.offset + offset, part});
      at += part;
      offset = 0;
      found = true;
      if (at == end) break;
    }
    if (!found) return {};
  }
  return parts;
}

void Arena::drop_spare() {
  small_.take_at(spare_, kGranule);
  granules_->set(spare_, kGranule, 0);
  reclaim({spare_, kGranule, false});
  spare_ = 0;
}

void Arena::reclaim(const Retired &retired) {
  unmap_to_reserved(retired.base, retired.size);
  if (physical_) give_back(retired.base);
  addresses_.add(retired.base, retired.size + (retired.large ? kGranule : 0));
}

}  // namespace softdev::driver
