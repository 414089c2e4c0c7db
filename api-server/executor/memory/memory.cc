#include "memory/memory.h"

#include <algorithm>
#include <iterator>

#include "wire.h"

namespace outboard {

Memory::Memory(const Driver &driver, int ordinal, Scrubber &scrubber, uint64_t window_base,
               uint64_t window_size, MemoryLimits limits, SessionState session)
    : driver_(driver),
      ordinal_(ordinal),
      scrubber_(scrubber),
      base_(window_base),
      size_(window_size),
      limits_(limits),
      session_(std::move(session)) {}

const char *Memory::misuse(uint64_t address, uint64_t size) const {
  if (address % limits_.granule || size % limits_.granule || size == 0) {
    return "a mapping is not made of whole granules";
  }
  if (address < base_ || size > size_ || address - base_ > size_ - size) {
    return "a mapping lies outside the window";
  }
  auto next = ranges_.lower_bound(address);
  if (next != ranges_.end() && next->first - address < size) return "mappings overlap";
  if (next != ranges_.begin()) {
    const auto &[start, range] = *std::prev(next);
    if (address - start < range.size) return "mappings overlap";
  }
  return nullptr;
}

// Sees to it that so much more may be taken, of which so much counts. `settle`: what is being
// overwritten must be gone first.
CUresult Memory::make_room(uint64_t size, uint64_t counting, bool settle) {
  if (counting > left()) return CUDA_ERROR_OUT_OF_MEMORY;
  // Nor may what is being overwritten and what is new be more than the limit together.
  const bool full = crowded(size);
  if (full) make_way();
  const CUresult result = full ? reap_all() : reap(settle);
  // What others have borrowed and do not give back counts until they do.
  return result == CUDA_SUCCESS && !retired_.empty() && crowded(size) ? CUDA_ERROR_OUT_OF_MEMORY
                                                                      : result;
}

CUresult Memory::create(uint64_t size, bool shareable, CUmemGenericAllocationHandle *memory) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {ordinal_}};
  if (shareable) prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  CUresult result = driver_.cuMemCreate(memory, size, &prop, 0);
  if (result == CUDA_ERROR_OUT_OF_MEMORY) {
    make_way();
    if ((result = reap_all()) == CUDA_SUCCESS) {
      result = driver_.cuMemCreate(memory, size, &prop, 0);
    }
  }
  return result;
}

CUresult Memory::map(uint64_t address, uint64_t size, bool pinned) {
  CUmemGenericAllocationHandle memory;
  bool lendable = false;
  const uint64_t counting = pinned ? counted(pinned_ + size) - counted(pinned_) : size;
  CUresult result = make_room(size, counting, overlaps_retired(address, size));
  if (result == CUDA_SUCCESS) result = create_lendable(size, false, &memory, &lendable);
  if (result != CUDA_SUCCESS) return result;
  result = clear_way(address, size);
  if (result == CUDA_SUCCESS) result = map_whole(address, size, memory);
  if (result != CUDA_SUCCESS) {
    driver_.cuMemRelease(memory);
    return result;
  }
  std::unique_lock lock(ranges_mutex_);
  Range &range = ranges_[address] = {size, memory, false};
  lock.unlock();
  range.lendable = lendable;
  range.pinned = pinned;
  mapped_ += counting;
  if (pinned) pinned_ += size;
  taken_.fetch_add(size, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

// In pieces: of one that is zeroed as a whole, a device may give what lies under it away.
CUresult Memory::touch(uint64_t address, uint64_t size) {
  constexpr uint64_t kPiece = 1 << 20;
  CUresult result = CUDA_SUCCESS;
  for (uint64_t at = 0; at < size && result == CUDA_SUCCESS; at += kPiece)
    result = scrubber_.zero(address + at, std::min(kPiece, size - at));
  return result;
}

bool Memory::take_beside(uint64_t bytes) {
  if (bytes > left()) return false;
  if (crowded(bytes)) {
    make_way();
    if (reap_all() != CUDA_SUCCESS || (!retired_.empty() && crowded(bytes))) return false;
  }
  mapped_ += bytes;
  taken_.fetch_add(bytes, std::memory_order_relaxed);
  return true;
}

bool Memory::set_beside(uint64_t bytes) {
  if (bytes > limits_.mapped - mapped_ - stacks_) return false;
  beside_ = bytes;
  return true;
}

bool Memory::set_stacks(uint64_t bytes) {
  const uint64_t most = limits_.mapped - wire_near_limit(limits_.mapped);
  if (bytes > std::min(most, limits_.mapped - mapped_ - beside_)) return false;
  stacks_ = bytes;
  return true;
}

void Memory::keep_stacks(uint64_t bytes) {
  stacks_ = std::min(bytes, limits_.mapped - mapped_ - beside_);
}

CUresult Memory::find_room(uint64_t size) {
  const CUresult result = make_room(size, size, false);
  return result == CUDA_SUCCESS ? find_free(size) : result;
}

CUresult Memory::find_free(uint64_t size) {
  CUresult result = CUDA_SUCCESS;
  for (const bool again : {false, true}) {
    size_t free = 0, total = 0;
    if (result == CUDA_SUCCESS) result = driver_.cuMemGetInfo_v2(&free, &total);
    if (result != CUDA_SUCCESS || size <= free) return result;
    if (again) break;
    make_way();
    result = reap_all();
  }
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult Memory::map_whole(uint64_t address, uint64_t size, CUmemGenericAllocationHandle memory) {
  CUresult result = driver_.cuMemMap(address, size, 0, memory, 0);
  if (result != CUDA_SUCCESS) return result;
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {ordinal_}},
                               CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  result = driver_.cuMemSetAccess(address, size, &access, 1);
  if (result != CUDA_SUCCESS) driver_.cuMemUnmap(address, size);
  return result;
}

bool Memory::is_mapping(uint64_t address, uint64_t size) const {
  auto found = ranges_.find(address);
  return found != ranges_.end() && !found->second.global && !found->second.placed &&
         !found->second.borrowed && found->second.size == size;
}

std::map<uint64_t, Memory::Mapping> Memory::mappings() const {
  std::map<uint64_t, Mapping> list;
  for (const auto &[address, range] : ranges_) {
    if (is_mapping(address, range.size)) list[address] = {range.size, range.pinned};
  }
  return list;
}

CUresult Memory::unmap(uint64_t address) {
  auto found = ranges_.find(address);
  Range range = found->second;
  if (range.shared) Offers::own().withdraw(sharer_.session, address);
  withdraw(&range);
  if (range.lendable) --lendable_count_;
  if (range.shareable) --shareable_count_;
  forget(found);
  last_size_ = last_start_ = 0;
  if (range.pinned) {
    mapped_ -= counted(pinned_) - counted(pinned_ - range.size);
    pinned_ -= range.size;
  } else {
    mapped_ -= range.size;
  }
  const bool early =
      (session_.waits_for_guest() || session_.awaited(address, range.size)) && !session_.resting();
  retired_.push_back({address, range.size, range.memory, false, range.loan, early});
  CUresult result = CUDA_SUCCESS;
  if (!early && !is_lent(range.loan)) result = overwrite(&retired_.back());
  keep_first(result, reap(false));
  return result;
}

// Nobody else has it any more.
CUresult Memory::overwrite(Retired *retired) {
  const CUresult result = begin_overwriting(retired);
  retired->unclean = result != CUDA_SUCCESS;
  keep_first(unscrubbed_, result);
  return result;
}

CUresult Memory::begin_overwriting(Retired *retired) {
  retired->loan = nullptr;
  if (retired->address) return scrubber_.zero(retired->address, retired->size);
  CUdeviceptr address = 0;
  CUresult result = driver_.cuMemAddressReserve(&address, retired->size, limits_.granule, 0, 0);
  if (result == CUDA_SUCCESS) {
    result = map_whole(address, retired->size, retired->memory);
    if (result != CUDA_SUCCESS) driver_.cuMemAddressFree(address, retired->size);
  }
  if (result != CUDA_SUCCESS) return result;
  retired->address = address;
  return scrubber_.zero(address, retired->size);
}

bool Memory::overlaps_retired(uint64_t address, uint64_t size) const {
  return std::ranges::any_of(retired_, [&](const Retired &r) { return r.overlaps(address, size); });
}

bool Memory::is_early(uint64_t address, uint64_t size) const {
  return std::ranges::any_of(retired_, [&](const Retired &r) {
    return r.early && r.address && address >= r.address && address - r.address <= r.size - size;
  });
}

CUresult Memory::reap(bool wait) {
  if (retired_.empty()) return CUDA_SUCCESS;
  // Later then: the leader would not hear the guest meanwhile.
  if (!wait && session_.waits_for_guest()) return CUDA_SUCCESS;
  if (wait) {
    CUresult result = overwrite_ended();
    keep_first(result, overwrite_returned(true));
    const CUresult done = scrubber_.wait();
    keep_first(result, done);
    if (done == CUDA_SUCCESS) keep_first(result, give_to_device());
    return result;
  }
  // What is done is given back before more is begun, or there would always be something to do.
  CUresult result = scrubber_.done();
  if (result == CUDA_SUCCESS) {
    result = give_to_device();
  } else if (result == CUDA_ERROR_NOT_READY) {
    result = CUDA_SUCCESS;
  }
  keep_first(result, overwrite_ended());
  keep_first(result, overwrite_returned(false));
  return result;
}

// Room is wanted now: what work may still reach is taken from it.
CUresult Memory::reap_all() {
  CUresult result = reap(true);
  if (std::ranges::none_of(retired_, &Retired::early)) return result;
  keep_first(result, clear_way(0, UINT64_MAX));
  keep_first(result, reap(true));
  return result;
}

// What was unmapped before work had ended that has ended by now, or that reaches it no more.
CUresult Memory::overwrite_ended() {
  const bool reached =
      std::ranges::any_of(retired_, [](const Retired &r) { return r.early && r.address; });
  return overwrite_early(reached && session_.resting());
}

CUresult Memory::overwrite_early(bool resting) {
  CUresult result = CUDA_SUCCESS;
  for (Retired &r : retired_) {
    if (!r.early || (r.address && !resting)) continue;
    const CUresult done = is_lent(r.loan) ? CUDA_SUCCESS : overwrite(&r);
    // It stays where it could not be mapped to be overwritten.
    r.early = done != CUDA_SUCCESS && !r.address;
    keep_first(result, done);
  }
  return result;
}

// The addresses are mapped next: what is still written there goes to what is mapped then.
CUresult Memory::clear_way(uint64_t address, uint64_t size) {
  CUresult result = CUDA_SUCCESS;
  for (Retired &r : retired_) {
    if (!r.early || !r.address || !r.overlaps(address, size)) continue;
    keep_first(result, driver_.cuMemUnmap(r.address, r.size));
    r.address = 0;
    r.apart = true;
  }
  return result;
}

// All that has been overwritten, which the scrubber is done with.
CUresult Memory::give_to_device() {
  CUresult result = CUDA_SUCCESS;
  std::erase_if(retired_, [&](const Retired &r) {
    if (r.loan || r.early || r.unclean) return false;
    keep_first(result, driver_.cuMemUnmap(r.address, r.size));
    if (r.apart) keep_first(result, driver_.cuMemAddressFree(r.address, r.size));
    keep_first(result, driver_.cuMemRelease(r.memory));
    taken_.fetch_sub(r.size, std::memory_order_relaxed);
    return true;
  });
  return result;
}

CUresult Memory::release(bool everything) {
  CUresult result = CUDA_SUCCESS;
  last_size_ = last_start_ = 0;
  // Before the wait for those who have borrowed from here, who may wait for this.
  if (everything) keep_first(result, give_back_all());
  for (auto at = ranges_.begin(); at != ranges_.end();) {
    const auto [address, range] = *at++;  // what is visited may be erased
    if (range.global) {
      forget(ranges_.find(address));
    } else if (!range.placed) {
      if (!range.borrowed) keep_first(result, unmap(address));
    } else if (everything) {
      displace(address, range.size);
      keep_first(result, driver_.cuMemUnmap(address, range.size));
    }
  }
  if (everything) {
    physicals_.each([&](Physical &p) {
      mapped_ -= p.size;
      keep_first(result, drop(p));
    });
    physicals_.clear();
    physical_count_ = shareable_count_ = lendable_count_ = 0;
    keep_first(result, unscrubbed_);
  }
  // All work has ended.
  keep_first(result, overwrite_early(true));
  keep_first(result, reap(true));
  // What others do not give back cannot be overwritten.
  if (everything && !retired_.empty()) keep_first(result, CUDA_ERROR_ILLEGAL_STATE);
  return result;
}

std::map<uint64_t, Memory::Range>::iterator Memory::forget(
    std::map<uint64_t, Range>::iterator range) {
  std::lock_guard lock(ranges_mutex_);
  return ranges_.erase(range);
}

bool Memory::holds(uint64_t address, uint64_t size) const {
  std::lock_guard lock(ranges_mutex_);
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return false;
  auto at = std::prev(next);
  for (uint64_t from = address; from - address < size; ++at) {
    if (at == ranges_.end() || at->first > from || from - at->first >= at->second.size)
      return false;
    if (at->second.placed || at->second.borrowed) return false;
    from = at->first + at->second.size;
  }
  return true;
}

bool Memory::find(uint64_t address, uint64_t size) {
  if (size == 0) return true;
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return false;
  auto at = std::prev(next);
  if (address - at->first >= at->second.size) return false;
  last_start_ = at->first;
  last_size_ = at->second.size;
  // An allocation may lie on several mappings, one behind the other.
  uint64_t covered = at->second.size - (address - at->first);
  while (covered < size) {
    const uint64_t end = at->first + at->second.size;
    if (++at == ranges_.end() || at->first != end) return false;
    covered += at->second.size;
  }
  return true;
}

bool Memory::add_global(uint64_t address, uint64_t size) {
  if (size == 0) return false;
  auto next = ranges_.lower_bound(address);
  if (next != ranges_.end() && next->first - address < size) return false;
  if (next != ranges_.begin()) {
    const auto &[start, range] = *std::prev(next);
    if (address - start < range.size) return false;
  }
  std::lock_guard lock(ranges_mutex_);
  ranges_[address] = {size, 0, true};
  return true;
}

void Memory::remove_global(uint64_t address) {
  auto found = ranges_.find(address);
  if (found == ranges_.end() || !found->second.global) return;
  forget(found);
  last_size_ = last_start_ = 0;
}

}  // namespace outboard
