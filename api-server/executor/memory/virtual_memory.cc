// Memory that the guest manages itself: pieces of it without addresses, and what maps them.
#include <iterator>

#include "base/served_values.h"
#include "base/session_limits.h"
#include "memory/memory.h"
#include "wire.h"

namespace outboard {

const char *Memory::create_misuse(uint64_t handle, uint64_t size) const {
  if (size % limits_.granule || size == 0) return "memory is not made of whole granules";
  return physicals_.can_mint(handle) ? nullptr : "a handle of memory cannot be minted";
}

CUresult Memory::create(uint64_t handle, uint64_t size, bool shareable) {
  if (physical_count_ == session_limits.physicals) return CUDA_ERROR_OUT_OF_MEMORY;
  if (shareable && shareable_count_ == session_limits.shareable) return CUDA_ERROR_OUT_OF_MEMORY;
  CUmemGenericAllocationHandle memory;
  bool lendable = false;
  CUresult result = make_room(size, size, false);
  if (result == CUDA_SUCCESS) result = create_lendable(size, shareable, &memory, &lendable);
  if (result != CUDA_SUCCESS) return result;
  physicals_.keep(handle, {memory, size, 0, shareable, handle, false, std::nullopt, lendable});
  ++physical_count_;
  if (shareable) ++shareable_count_;
  mapped_ += size;
  taken_.fetch_add(size, std::memory_order_relaxed);
  return CUDA_SUCCESS;
}

bool Memory::can_end(uint64_t handle) {
  const Physical *found = physicals_.find(handle);
  return found && found->mappings == 0 && (!found->keeps || found->keeps.use_count() == 1);
}

CUresult Memory::end(uint64_t handle) {
  Physical ended;
  physicals_.take(handle, &ended);
  --physical_count_;
  if (ended.shareable) --shareable_count_;
  if (ended.lendable) --lendable_count_;
  mapped_ -= ended.size;
  return drop(ended);
}

// Overwrites memory that nothing maps here, once nobody else has it, and gives it back when that is
// done. What cannot be overwritten is not given back: then the process has to go.
CUresult Memory::scrub_apart(uint64_t size, CUmemGenericAllocationHandle memory,
                             std::shared_ptr<Loan> loan) {
  Retired retired{0, size, memory, true, std::move(loan)};
  CUresult result = CUDA_SUCCESS;
  if (!is_lent(retired.loan)) result = overwrite(&retired);
  retired_.push_back(std::move(retired));
  const CUresult reaped = reap(false);
  return result == CUDA_SUCCESS ? reaped : result;
}

const char *Memory::place_misuse(uint64_t address, uint64_t size, uint64_t offset,
                                 uint64_t handle) {
  if (const char *what = misuse(address, size)) return what;
  const Physical *found = physicals_.find(handle);
  // Not a violation: making it may have failed, which the guest has not heard of yet.
  if (!found) return nullptr;
  if (offset % limits_.granule || offset > found->size || size > found->size - offset) {
    return "a mapping reaches beyond its memory";
  }
  return nullptr;
}

CUresult Memory::place(uint64_t address, uint64_t size, uint64_t offset, uint64_t handle) {
  Physical *found = physicals_.find(handle);
  if (!found) return CUDA_ERROR_INVALID_VALUE;
  if (placed_count_ == session_limits.placed) return CUDA_ERROR_OUT_OF_MEMORY;
  // What was there may still be overwritten.
  CUresult result = reap(overlaps_retired(address, size));
  if (result == CUDA_SUCCESS) result = clear_way(address, size);
  if (result == CUDA_SUCCESS) result = driver_.cuMemMap(address, size, offset, found->memory, 0);
  if (result != CUDA_SUCCESS) return result;
  {
    std::lock_guard lock(ranges_mutex_);
    ranges_[address] = {size, found->memory, false, handle, offset};
  }
  ++found->mappings;
  ++placed_count_;
  return CUDA_SUCCESS;
}

bool Memory::is_placed(uint64_t address, uint64_t size, bool whole) const {
  if (address % limits_.granule || size % limits_.granule || size == 0 ||
      size > UINT64_MAX - address) {
    return false;
  }
  auto next = ranges_.upper_bound(address);
  if (next == ranges_.begin()) return false;
  auto at = std::prev(next);
  if (whole && at->first != address) return false;
  const uint64_t end = address + size;
  for (uint64_t from = address; from < end; ++at) {
    if (at == ranges_.end() || at->first > from) return false;
    if (!at->second.placed && (whole || !at->second.borrowed)) return false;
    if (from - at->first >= at->second.size) return false;
    from = at->first + at->second.size;
    if (whole && from > end) return false;
  }
  return true;
}

std::vector<Memory::Displaced> Memory::displace(uint64_t address, uint64_t size) {
  std::vector<Displaced> gone;
  auto at = ranges_.find(address);
  for (const uint64_t end = address + size; at != ranges_.end() && at->first < end;) {
    Displaced &displaced = gone.emplace_back(at->first, at->second.size, nullptr);
    withdraw(&at->second);
    if (Physical *found = physicals_.find(at->second.placed)) {
      --found->mappings;
      if (!found->keeps) found->keeps = std::make_shared<char>();
      displaced.keeps = found->keeps;
    }
    --placed_count_;
    at = forget(at);
  }
  last_size_ = last_start_ = 0;
  return gone;
}

CUresult Memory::set_access(uint64_t address, uint64_t size, uint32_t flags) {
  if (!is_served_access(flags)) return CUDA_ERROR_INVALID_VALUE;
  const CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, {ordinal_}},
                               static_cast<CUmemAccess_flags>(flags)};
  return driver_.cuMemSetAccess(address, size, &access, 1);
}

// ---- taking it along ---------------------------------------------------------------------------

std::vector<Memory::Piece> Memory::pieces() {
  std::vector<Piece> list;
  physicals_.each([&](const Physical &p) { list.push_back({p.handle, p.size, p.shareable}); });
  return list;
}

std::vector<Memory::Placement> Memory::placements() const {
  std::vector<Placement> list;
  for (const auto &[address, range] : ranges_)
    if (range.placed) list.push_back({address, range.size, range.offset, range.placed});
  return list;
}

CUresult Memory::access_at(uint64_t address, uint64_t *flags) const {
  const CUmemLocation location{CU_MEM_LOCATION_TYPE_DEVICE, {ordinal_}};
  unsigned long long found = 0;
  const CUresult result = driver_.cuMemGetAccess(&found, &location, address);
  *flags = found;
  return result;
}

CUresult Memory::view(const Piece &piece, uint64_t *address) {
  CUdeviceptr at = 0;
  CUresult result = driver_.cuMemAddressReserve(&at, piece.size, limits_.granule, 0, 0);
  if (result != CUDA_SUCCESS) return result;
  result = map_whole(at, piece.size, physicals_.find(piece.handle)->memory);
  if (result != CUDA_SUCCESS) driver_.cuMemAddressFree(at, piece.size);
  *address = at;
  return result;
}

void Memory::end_view(const Piece &piece, uint64_t address) {
  driver_.cuMemUnmap(address, piece.size);
  driver_.cuMemAddressFree(address, piece.size);
}

// What lies outside of the window, as variables do, leaves none there.
uint64_t Memory::gap(uint64_t size) const {
  uint64_t from = base_;
  for (const auto &[address, range] : ranges_) {
    if (address < base_ || address - base_ >= size_) continue;
    if (address - from >= size) return from;
    from = address + range.size;
  }
  return base_ + size_ - from >= size ? from : 0;
}

}  // namespace outboard
