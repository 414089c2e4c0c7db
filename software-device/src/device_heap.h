// Pieces of a range of device memory, given out and taken back.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace softdev {

class DeviceHeap {
 public:
  void place(uint64_t base, uint64_t size);
  uint64_t allocate(uint64_t size);  // 0 when it is full
  bool release(uint64_t address);    // false when it did not hand it out
  uint64_t bytes() const { return bytes_; }

 private:
  std::mutex mutex_;
  std::vector<std::pair<uint64_t, uint64_t>> free_;  // (address, size), ordered
  std::unordered_map<uint64_t, uint64_t> used_;
  uint64_t bytes_ = 0;
};

inline void DeviceHeap::place(uint64_t base, uint64_t size) {
  free_ = {{base, size}};
  bytes_ = size;
}

inline uint64_t DeviceHeap::allocate(uint64_t size) {
  if (size == 0 || size > bytes_) return 0;
  size = (size + 15) & ~uint64_t{15};
  std::lock_guard lock(mutex_);
  for (size_t i = 0; i < free_.size(); ++i) {
    auto &[address, left] = free_[i];
    if (left < size) continue;
    uint64_t result = address;
    address += size;
    left -= size;
    if (left == 0) free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
    used_[result] = size;
    return result;
  }
  return 0;
}

inline bool DeviceHeap::release(uint64_t address) {
  std::lock_guard lock(mutex_);
  auto found = used_.find(address);
  if (found == used_.end()) return false;
  uint64_t size = found->second;
  used_.erase(found);
  auto at = std::lower_bound(free_.begin(), free_.end(), std::pair{address, uint64_t{0}});
  at = free_.insert(at, {address, size});
  auto next = at + 1;
  if (next != free_.end() && at->first + at->second == next->first) {
    at->second += next->second;
    at = free_.erase(next) - 1;
  }
  if (at != free_.begin()) {
    auto before = at - 1;
    if (before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
    }
  }
  return true;
}

}  // namespace softdev
