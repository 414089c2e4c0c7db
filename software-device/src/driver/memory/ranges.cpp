#include "memory/ranges.h"

#include <iterator>

namespace softdev::driver {

void Ranges::insert(uint64_t base, uint64_t size) {
  if (size == 0) return;
  by_base_.emplace(base, size);
  by_size_.emplace(size, base);
  total_ += size;
}

void Ranges::erase(std::map<uint64_t, uint64_t>::iterator range) {
  by_size_.erase({range->second, range->first});
  total_ -= range->second;
  by_base_.erase(range);
}

void Ranges::add(uint64_t base, uint64_t size) {
  auto after = by_base_.lower_bound(base);
  if (after != by_base_.end() && base + size == after->first) {
    size += after->second;
    auto gone = after++;
    erase(gone);
  }
  if (after != by_base_.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == base) {
      base = before->first;
      size += before->second;
      erase(before);
    }
  }
  insert(base, size);
}

std::optional<uint64_t> Ranges::take(uint64_t size, uint64_t align) {
  for (auto range = by_size_.lower_bound({size, 0}); range != by_size_.end(); ++range) {
    auto [length, base] = *range;
    uint64_t start = (base + align - 1) & ~(align - 1);
    if (start < base || start - base > length - size) continue;
    erase(by_base_.find(base));
    insert(base, start - base);
    insert(start + size, base + length - start - size);
    return start;
  }
  return std::nullopt;
}

bool Ranges::take_at(uint64_t base, uint64_t size) {
  auto range = by_base_.upper_bound(base);
  if (range == by_base_.begin()) return false;
  --range;
  uint64_t start = range->first, length = range->second;
  if (base - start > length || size > length - (base - start)) return false;
  erase(range);
  insert(start, base - start);
  insert(base + size, start + length - base - size);
  return true;
}

std::optional<std::pair<uint64_t, uint64_t>> Ranges::largest() const {
  if (by_size_.empty()) return std::nullopt;
  auto [size, base] = *by_size_.rbegin();
  return std::pair{base, size};
}

std::optional<std::pair<uint64_t, uint64_t>> Ranges::around(uint64_t address) const {
  auto range = by_base_.upper_bound(address);
  if (range == by_base_.begin()) return std::nullopt;
  --range;
  if (address - range->first >= range->second) return std::nullopt;
  return *range;
}

}  // namespace softdev::driver
