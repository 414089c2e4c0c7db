// One flag byte per granule of a window (engine.h tells what is in it): what kernels of one device
// may do there.
#pragma once

#include <cstdint>

#include "engine.h"
#include "memory/physical.h"

namespace softdev::driver {

using softdev::kReadable;
using softdev::kWritable;

// Kernels read the flags while they are changed here, so they are atomics. A flag costs memory
// only once it is touched: windows are large and mostly empty.
class Granules {
 public:
  Granules(uint64_t base, uint64_t size);
  ~Granules();
  Granules(const Granules &) = delete;
  Granules &operator=(const Granules &) = delete;

  bool valid() const { return flags_ != nullptr; }
  // Opens these bytes, and no others, to kernels; `flags` 0 closes every granule they touch.
  // Preconditions: the range lies in the window and shares no granule with another that is open.
  void set(uint64_t address, uint64_t size, uint8_t flags);
  // The same where other memory may begin or end in the granules at either end.
  void set_among_others(uint64_t address, uint64_t size, uint8_t flags);
  void close() { store(0, window_.size >> kGranuleShift, 0); }
  // What may be done at an address: kReadable, kWritable.
  uint8_t get(uint64_t address) const;
  const Window &window() const { return window_; }

 private:
  void store(uint64_t first, uint64_t last, uint8_t flags);  // granules first..last-1

  Window window_;
  uint64_t bytes_;
  uint8_t *flags_ = nullptr;
};

}  // namespace softdev::driver
