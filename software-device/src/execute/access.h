// Whether a launch may touch memory: the quick answers, given from the flags of the two windows
// that the warp used last. What they refuse is asked again, lane by lane, of memory_allowed(),
// which knows other windows and other spaces. Included by ops/ only.
#pragma once

#include "execute/lanes.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// What a granule's flags must be for an access. Constants are what kernels may read and not write.
struct Use {
  uint8_t pick, want;
};
constexpr Use kReads{kReadable, kReadable};
constexpr Use kWrites{kWritable, kWritable};
constexpr Use kReadsConstant{kReadable | kWritable, kReadable};

constexpr Use use_of(Space space, bool write) {
  return write ? kWrites : space == Space::Constant ? kReadsConstant : kReads;
}
// Local memory and parameters lie in no window.
constexpr bool has_windows(Space space) {
  return space == Space::Global || space == Space::Generic || space == Space::Constant;
}

SOFTDEV_INLINE uint8_t granule_flags(const Warp &w, uint64_t index) {
  return __atomic_load_n(w.window.granules + index, __ATOMIC_RELAXED);
}

// Whether a granule's first `end` bytes may be used.
SOFTDEV_INLINE bool granule_allows(uint8_t flags, uint64_t end, Use use) {
  if ((flags & use.pick) != use.want) return false;
  const unsigned words = flags >> 2;
  return words == kWholeGranule || (words != kAskSpace && end <= words * 4);
}

// Where an address lies in the window that holds it, which is the current one then; else too far.
SOFTDEV_INLINE uint64_t offset_in_window(Warp &w, uint64_t address) {
  const uint64_t offset = address - w.window.base;
  return __builtin_expect(offset < w.window.size, 1) ? offset : turn_window(w, address);
}

// `size` bytes at an address that must be aligned to `size`, so that they lie in one granule.
SOFTDEV_INLINE bool in_window(Warp &w, uint64_t address, unsigned size, Use use) {
  const uint64_t offset = offset_in_window(w, address);
  if (offset >= w.window.size || (address & (size - 1))) return false;
  return granule_allows(granule_flags(w, offset >> kGranuleShift), offset % kGranuleBytes + size,
                        use);
}

// Whether all of the granules first..last-1 are whole and may be used. Reads eight flags at once.
SOFTDEV_INLINE bool whole_granules(const Warp &w, uint64_t first, uint64_t last, Use use) {
  constexpr uint64_t kEach = 0x0101010101010101u;
  const uint64_t pick = (0xfcu | use.pick) * kEach, want = use.want * kEach;
  uint64_t bad = 0;
  for (uint64_t word = first / 8; word * 8 < last; ++word) {
    const auto *at = reinterpret_cast<const uint64_t *>(w.window.granules) + word;
    uint64_t wrong = (__atomic_load_n(at, __ATOMIC_RELAXED) & pick) ^ want;
    if (word == first / 8) wrong &= ~uint64_t{0} << first % 8 * 8;
    if (last - word * 8 < 8) wrong &= (uint64_t{1} << (last - word * 8) * 8) - 1;
    bad |= wrong;
  }
  return bad == 0;
}

// A stretch of bytes, no longer than a granule, in granules that are whole, as nearly all are.
// Else, and at the very end of the window, the answer is no.
SOFTDEV_INLINE bool stretch_in_window(Warp &w, uint64_t address, unsigned bytes, Use use) {
  uint64_t offset = address - w.window.base;
  if (__builtin_expect(offset >= w.window.starts, 0)) {
    offset = turn_window(w, address);
    if (offset >= w.window.starts) return false;
  }
  const uint8_t first = granule_flags(w, offset >> kGranuleShift);
  const uint8_t last = granule_flags(w, (offset + bytes - 1) >> kGranuleShift);
  return ((first | last) & (0xfcu | use.pick)) == use.want && (first & last & use.want) == use.want;
}

// A stretch of bytes, of any length.
SOFTDEV_INLINE bool range_in_window(Warp &w, uint64_t address, uint64_t bytes, Use use) {
  const uint64_t offset = offset_in_window(w, address);
  if (offset >= w.window.size || w.window.size - offset < bytes) return false;
  const uint64_t first = offset >> kGranuleShift, last = (offset + bytes - 1) >> kGranuleShift;
  return (first == last || whole_granules(w, first, last, use)) &&
         granule_allows(granule_flags(w, last), (offset + bytes - 1) % kGranuleBytes + 1, use);
}

// One lane's access through a space that is not Shared, aligned to its size.
SOFTDEV_INLINE bool may_access(Warp &w, Space space, uint64_t address, unsigned size, bool write,
                               unsigned lane) {
  if (has_windows(space) && __builtin_expect(in_window(w, address, size, use_of(space, write)), 1))
    return true;
  return (address & (size - 1)) == 0 &&
         memory_allowed(w, space, address, size, write ? kWritable : kReadable, lane);
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
