// The addresses of a warp's lanes: where they are, and whether memory there may be used. Included
// by the files of global memory.
#pragma once

#include <type_traits>

#include "execute/access.h"

namespace softdev::SOFTDEV_ISA {

// Of select_memory(), for vectors.
Handler select_memory_vector(const Ir &);

namespace {

// Whether the addresses of a full warp lie behind one another, `step` bytes apart.
template <unsigned step>
SOFTDEV_INLINE bool evenly_spaced(const uint64_t *at) {
#ifdef __AVX512F__
  const __m512i rows =
      _mm512_setr_epi64(0, step, 2 * step, 3 * step, 4 * step, 5 * step, 6 * step, 7 * step);
  __m512i wanted = _mm512_add_epi64(_mm512_set1_epi64(static_cast<int64_t>(at[0])), rows);
  unsigned different = 0;
  for (unsigned c = 0; c < kLanes; c += 8) {
    different |= _mm512_cmpneq_epi64_mask(_mm512_load_si512(at + c), wanted);
    wanted = _mm512_add_epi64(wanted, _mm512_set1_epi64(8 * step));
  }
  return different == 0;
#else
  uint64_t first = at[0], different = 0;
  SOFTDEV_LANES different |= at[l] ^ (first + l * step);
  return different == 0;
#endif
}
// The addresses of all lanes. I: the type of the index that is added, or void.
template <class I>
SOFTDEV_INLINE void find_addresses(Warp &w, const Ins *i, uint64_t *at) {
  const uint64_t *address = slot<uint64_t>(w, i->a);
  if constexpr (std::is_void_v<I>) {
    const auto offset = static_cast<uint64_t>(i->imm);
    SOFTDEV_LANES at[l] = address[l] + offset;
  } else {
    const I *index = slot<I>(w, i->c);
    const auto offset = static_cast<uint64_t>(int64_t{static_cast<int32_t>(i->imm)});
    const int64_t scale = i->imm >> 32;
    SOFTDEV_LANES at[l] =
        address[l] + static_cast<uint64_t>(static_cast<int64_t>(index[l]) * scale) + offset;
  }
}

// Whether all lanes' accesses lie in [base, base + size) and are aligned.
SOFTDEV_INLINE bool all_in(const uint64_t *at, uint64_t base, uint64_t size, unsigned bytes) {
  uint64_t highest = 0, low = 0;
  SOFTDEV_LANES {
    uint64_t offset = at[l] - base;
    highest = offset > highest ? offset : highest;
    low |= at[l];
  }
  return highest < size && size - highest >= bytes && !(low & (bytes - 1));
}

// Whether all lanes' accesses may be done, wherever in the window they lie. Granules in between are
// asked too where that is quicker; then a refusal means nothing.
SOFTDEV_INLINE bool all_in_window(Warp &w, const uint64_t *at, unsigned bytes, Use use) {
  constexpr uint64_t kFew = 64;  // granules
  uint64_t lowest = at[0], highest = at[0], low = 0;
  SOFTDEV_LANES {
    lowest = at[l] < lowest ? at[l] : lowest;
    highest = at[l] > highest ? at[l] : highest;
    low |= at[l];
  }
  if (low & (bytes - 1)) return false;
  if (highest - lowest < kFew * kGranuleBytes)
    return range_in_window(w, lowest, highest - lowest + bytes, use);
  const uint64_t begin = offset_in_window(w, lowest);
  if (begin >= w.window.size || highest - lowest >= w.window.size - begin) return false;
  bool good = true;
  for (unsigned l = 0; l < kLanes; ++l) {
    uint64_t offset = at[l] - w.window.base;
    good &= granule_allows(granule_flags(w, offset >> kGranuleShift),
                           offset % kGranuleBytes + bytes, use);
  }
  return good;
}

// The same for any space; the memory of the block and of its threads has generic addresses too.
template <Space space>
SOFTDEV_INLINE bool all_allowed(Warp &w, const uint64_t *at, unsigned bytes, bool write) {
  if (space == Space::Generic) {
    uint64_t base = reinterpret_cast<uint64_t>(w.shared);
    if (at[0] - base < w.shared_size) return all_in(at, base, w.shared_size, bytes);
  }
  return all_in_window(w, at, bytes, use_of(space, write));
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
