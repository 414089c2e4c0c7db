// The memory of one device: a file in memory as large as the device, given out in granules of
// 2 MiB. What is given out is zero, and what is given back costs nothing any more; or it keeps its
// bytes for whoever gets it next.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "memory/ranges.h"

namespace softdev::driver {

inline constexpr uint64_t kGranule = uint64_t{1} << 21;
// Of memory without addresses it may be less (the trait `granularity`).
inline constexpr uint64_t kLeastGranule = uint64_t{64} << 10;

inline uint64_t round_up(uint64_t value, uint64_t unit) { return (value + unit - 1) / unit * unit; }

struct Extent {
  uint64_t offset = 0;
  uint64_t size = 0;
};

class PhysicalMemory {
 public:
  PhysicalMemory(uint64_t total, bool residue) : total_(total), residue_(residue) {
    free_.add(0, total);
  }
  ~PhysicalMemory();
  PhysicalMemory(const PhysicalMemory &) = delete;
  PhysicalMemory &operator=(const PhysicalMemory &) = delete;

  // `size` bytes, a multiple of the least granule, in as few pieces as possible. False when the
  // device has not that much left, or the system refuses the file.
  bool take(uint64_t size, std::vector<Extent> *extents);
  void give_back(const std::vector<Extent> &extents);

  // Maps extents one behind the other at a fixed address.
  bool map(uint64_t address, const std::vector<Extent> &extents) const;

  // Counts memory that lies in a file of its own against what the device has.
  bool charge(uint64_t size);
  void discharge(uint64_t size);

  uint64_t total() const { return total_; }
  int file() const { return file_; }  // -1 while nothing was taken
  uint64_t used() const;

 private:
  bool open_file();

  const uint64_t total_;
  const bool residue_;
  mutable std::mutex mutex_;
  Ranges free_;
  uint64_t used_ = 0;
  int file_ = -1;
};

// Maps extents of a file one behind the other at a fixed address.
bool map_file(int file, uint64_t address, const std::vector<Extent> &extents);

// Holds a range of addresses so that nothing else gets them, without any memory behind it.
// `at` 0 lets the system choose. Returns 0 when the range is not to be had.
uint64_t reserve_addresses(uint64_t size, uint64_t align, uint64_t at = 0);
// The same at the first of these places that is free: `from`, and those a multiple of the size
// behind it. 0 when none of the first few is.
uint64_t reserve_addresses_from(uint64_t from, uint64_t size, uint64_t align);
void release_addresses(uint64_t base, uint64_t size);

// Turns a part of a reservation back to addresses without memory.
void unmap_to_reserved(uint64_t base, uint64_t size);

}  // namespace softdev::driver
