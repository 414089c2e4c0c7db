// A set of free ranges of numbers (addresses, or offsets in a file), from which pieces are taken.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace softdev::driver {

class Ranges {
 public:
  // Adds a range that is not in the set yet, and joins it with its neighbours.
  void add(uint64_t base, uint64_t size);

  // Takes `size` from the smallest range it fits, at a multiple of `align` (a power of two).
  std::optional<uint64_t> take(uint64_t size, uint64_t align);

  // Takes exactly [base, base + size). False when it is not wholly free.
  bool take_at(uint64_t base, uint64_t size);

  // The sizes of all ranges together.
  uint64_t total() const { return total_; }

  // The largest free range, or nothing.
  std::optional<std::pair<uint64_t, uint64_t>> largest() const;

  // The free range that holds `address`, as (base, size).
  std::optional<std::pair<uint64_t, uint64_t>> around(uint64_t address) const;

 private:
  void insert(uint64_t base, uint64_t size);
  void erase(std::map<uint64_t, uint64_t>::iterator range);

  std::map<uint64_t, uint64_t> by_base_;
  std::set<std::pair<uint64_t, uint64_t>> by_size_;  // (size, base)
  uint64_t total_ = 0;
};

}  // namespace softdev::driver
