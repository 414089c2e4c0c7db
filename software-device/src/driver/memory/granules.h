// One flag byte per granule of a window: what kernels of one device may do there.
#pragma once

#include <cstdint>

#include "engine.h"
#include "memory/physical.h"

namespace softdev::driver {

inline constexpr uint8_t kReadable = 1, kWritable = 2;

// Kernels read the flags while they are changed here, so every byte is an atomic. A flag costs
// memory only once it is touched: windows are large and mostly empty.
class Granules {
 public:
  Granules(uint64_t base, uint64_t size);
  ~Granules();
  Granules(const Granules &) = delete;
  Granules &operator=(const Granules &) = delete;

  bool valid() const { return flags_ != nullptr; }
  // Preconditions: the range lies in the window. Every granule it touches is set.
  void set(uint64_t address, uint64_t size, uint8_t flags);
  uint8_t get(uint64_t address) const;
  const Window &window() const { return window_; }

 private:
  Window window_;
  uint64_t count_;
  uint8_t *flags_ = nullptr;
};

}  // namespace softdev::driver
