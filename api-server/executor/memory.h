// The device memory of a session: what is mapped in its window, and the globals of its modules.
// Used by the leader alone.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <vector>

#include "driver.h"
#include "scrubber.h"

namespace outboard {

class Memory {
 public:
  Memory(const Driver &driver, int ordinal, Scrubber &scrubber, uint64_t window_base,
         uint64_t window_size, uint64_t limit);

  // Why a range cannot be mapped however the device feels about it, or null.
  const char *misuse(uint64_t address, uint64_t size) const;
  // Puts memory under the range. `misuse` has nothing against it.
  CUresult map(uint64_t address, uint64_t size);

  // Whether exactly this was mapped.
  bool is_mapping(uint64_t address, uint64_t size) const;
  // Takes it from the session and lets the device overwrite it; it goes back to the device once
  // that is done, which nobody waits for.
  CUresult unmap(uint64_t address);
  // Everything. The first error, if any: then memory may not be clean.
  CUresult release();

  // Whether all of [address, address + size) is the session's.
  bool reachable(uint64_t address, uint64_t size) {
    // Consecutive commands mostly touch the same allocation.
    if (address - last_start_ <= last_size_ && size <= last_size_ - (address - last_start_)) {
      return true;
    }
    return find(address, size);
  }

  // Makes a module's variable reachable. False when it is already, or has no size.
  bool add_global(uint64_t address, uint64_t size);
  void remove_global(uint64_t address);

  uint64_t mapped() const { return mapped_; }

  // Memory that the session takes in other ways counts towards its limit, too: from now on so much.
  // False when that is more than there is.
  bool set_beside(uint64_t bytes);
  // What of the device's memory mappings take, with what is still being overwritten. Any thread.
  uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  struct Range {
    uint64_t size;
    CUmemGenericAllocationHandle memory;
    bool global;
  };

  struct Retired {
    uint64_t address;
    uint64_t size;
    CUmemGenericAllocationHandle memory;
  };

  bool find(uint64_t address, uint64_t size);
  bool overlaps_retired(uint64_t address, uint64_t size) const;
  CUresult reap(bool wait);
  uint64_t left() const { return limit_ - beside_ - mapped_; }
  CUresult place(uint64_t address, uint64_t size, CUmemGenericAllocationHandle memory);

  const Driver &driver_;
  const int ordinal_;
  Scrubber &scrubber_;
  const uint64_t base_;
  const uint64_t size_;
  const uint64_t limit_;
  uint64_t mapped_ = 0;
  uint64_t beside_ = 0;
  std::atomic<uint64_t> taken_{0};
  std::map<uint64_t, Range> ranges_;  // by address, not overlapping
  std::vector<Retired> retired_;      // being overwritten, still mapped
  uint64_t last_start_ = 0;
  uint64_t last_size_ = 0;
};

}  // namespace outboard
