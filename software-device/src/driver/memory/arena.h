// A window of addresses that plain allocations come from: one per device, over its physical
// memory, and one for host memory that kernels can reach. Small requests share granules of 2 MiB,
// at multiples of 512 bytes, with exact checks as many apart; large ones have granules of their own
// and one empty one behind them.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "memory/granules.h"
#include "memory/ranges.h"

namespace softdev::driver {

// How closely kernels are held to allocations: to their bytes, or, as a GPU's page tables do, to
// granules that may hold several, and whose freed parts stay open.
enum class Checks : uint8_t { kExact, kPages };

// Not thread-safe: Memory holds its lock.
class Arena {
 public:
  // Without physical memory, the arena is of host memory and has no limit of its own. `at`: the
  // addresses begin there, or null is returned; 0: anywhere.
  static std::unique_ptr<Arena> create(uint64_t window, PhysicalMemory *physical, Checks checks,
                                       uint64_t at = 0);

  // 0 when there is no room. `align` is a power of two, at most a granule; `flags` says what
  // kernels may do there.
  uint64_t allocate(uint64_t size, uint64_t align = 512, uint8_t flags = kReadable | kWritable);

  // Addresses as for an allocation. What is small has memory at once; `*backed` tells.
  uint64_t reserve(uint64_t size, bool *backed);
  bool back(uint64_t base, uint64_t size);
  // False when it stays: it is small, and shares its granule.
  bool unback(uint64_t base, uint64_t size);

  // What release leaves to be unmapped, once nobody can be using it any more.
  struct Retired {
    uint64_t base = 0;
    uint64_t size = 0;
    bool large = false;
  };

  // Takes an allocation back. Granules that nobody uses then are closed to kernels and returned.
  std::vector<Retired> release(uint64_t address, uint64_t size);
  void reclaim(const Retired &retired);

  // Where the granules of [address, address + size) lie in the device's file, in order.
  std::vector<Extent> extents_of(uint64_t address, uint64_t size) const;

  // Whether nothing is allocated, nor was. Only for an arena over physical memory.
  bool untouched() const { return extents_.empty(); }
  const Granules &granules() const { return *granules_; }
  bool contains(uint64_t address) const {
    return address - granules_->window().base < granules_->window().size;
  }
  // Bytes committed only because giving them back and taking them again would be slow.
  uint64_t spare() const { return spare_ ? kGranule : 0; }

 private:
  static constexpr uint64_t kSmall = uint64_t{1} << 20;

  uint64_t room_of_small(uint64_t size) const;
  bool commit(uint64_t base, uint64_t size);
  void give_back(uint64_t base);
  uint64_t allocate_small(uint64_t size, uint64_t align);
  uint64_t allocate_large(uint64_t size);
  std::vector<Retired> release_small(uint64_t address, uint64_t size);
  void drop_spare();
  void begin_anew(bool small);

  PhysicalMemory *physical_ = nullptr;
  Checks checks_ = Checks::kExact;
  std::unique_ptr<Granules> granules_;
  Ranges addresses_;          // in granules, for large allocations and slabs
  Ranges small_;              // free parts of committed slabs
  uint64_t spare_ = 0;        // a slab that is wholly free, the first of them
  std::set<uint64_t> apart_;  // small ones with granules of their own
  std::map<uint64_t, std::vector<Extent>> extents_;  // by the base of what was committed
};

}  // namespace softdev::driver
