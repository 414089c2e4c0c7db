// What loads and stores of all spaces share. Included by the memory_*.cpp files.
#pragma once

#include "execute/access.h"
#include "execute/ops/memory/whole.h"

namespace softdev::SOFTDEV_ISA {
namespace {

struct Plain {
  template <class T>
  static SOFTDEV_INLINE T load(const T *p) {
    return *p;
  }
  template <class T>
  static SOFTDEV_INLINE void store(T *p, T value) {
    *p = value;
  }
};
// volatile, relaxed, acquire, release: each element in one access. x86 needs no more than that;
// elsewhere acquire and release order.
struct Ordered {
  template <class T>
  static SOFTDEV_INLINE T load(const T *p) {
    return __atomic_load_n(p, __ATOMIC_ACQUIRE);
  }
  template <class T>
  static SOFTDEV_INLINE void store(T *p, T value) {
    __atomic_store_n(p, value, __ATOMIC_RELEASE);
  }
};

// Eight lanes at a time: kernels with 8 or 16 threads in a row are side by side or equal in eights.
template <class M, class R, class A>
SOFTDEV_INLINE void gather_lanes(uint64_t base, const A *at, R *d, unsigned step) {
  for (unsigned c = 0; c < kLanes; c += 8) {
    A first = at[c], from_row = 0, from_first = 0;
    for (unsigned j = 0; j < 8; ++j) {
      from_row |= static_cast<A>(at[c + j] ^ static_cast<A>(first + j * step));
      from_first |= static_cast<A>(at[c + j] ^ first);
    }
    const M *from = reinterpret_cast<const M *>(base + first);
    if (from_first == 0) {
      R value = static_cast<R>(*from);
      for (unsigned j = 0; j < 8; ++j) d[c + j] = value;
    } else if (from_row == 0 && step == sizeof(M)) {
      for (unsigned j = 0; j < 8; ++j) d[c + j] = static_cast<R>(from[j]);
    } else {
      for (unsigned j = 0; j < 8; ++j)
        d[c + j] = static_cast<R>(*reinterpret_cast<const M *>(base + at[c + j]));
    }
  }
}
// In order of lanes: of those that write one place, the last one stays.
template <class M, class R, class A>
SOFTDEV_INLINE void scatter_lanes(uint64_t base, const A *at, const R *s) {
  for (unsigned c = 0; c < kLanes; c += 8) {
    A first = at[c], from_row = 0;
    for (unsigned j = 0; j < 8; ++j)
      from_row |= static_cast<A>(at[c + j] ^ static_cast<A>(first + j * sizeof(M)));
    if (from_row == 0) {
      M *to = reinterpret_cast<M *>(base + first);
      for (unsigned j = 0; j < 8; ++j) to[j] = static_cast<M>(s[c + j]);
    } else {
      for (unsigned j = 0; j < 8; ++j)
        *reinterpret_cast<M *>(base + at[c + j]) = static_cast<M>(s[c + j]);
    }
  }
}

#ifdef __AVX2__
// Rows of four words, of eight lanes, to columns and back: unpacking twice turns each half.
struct Turned {
  __m256i first, second, third, fourth;
};
SOFTDEV_INLINE Turned turn(__m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i ab = _mm256_unpacklo_epi32(a, b), cd = _mm256_unpacklo_epi32(c, d);
  const __m256i ab2 = _mm256_unpackhi_epi32(a, b), cd2 = _mm256_unpackhi_epi32(c, d);
  return {_mm256_unpacklo_epi64(ab, cd), _mm256_unpackhi_epi64(ab, cd),
          _mm256_unpacklo_epi64(ab2, cd2), _mm256_unpackhi_epi64(ab2, cd2)};
}
// How 16 bytes are accessed: wherever they lie, or aligned and whole.
struct AnyRow {
  static SOFTDEV_INLINE __m128i load(uint64_t at) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i *>(at));
  }
  static SOFTDEV_INLINE void store(uint64_t at, __m128i value) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(at), value);
  }
};
struct WholeRow {
  static SOFTDEV_INLINE __m128i load(uint64_t at) {
    return bit_cast<__m128i>(load_whole(reinterpret_cast<const Pair *>(at)));
  }
  static SOFTDEV_INLINE void store(uint64_t at, __m128i value) {
    store_whole(reinterpret_cast<Pair *>(at), bit_cast<Pair>(value));
  }
};
// Four words at each lane's address, to four registers or to nowhere.
template <class Access, class A>
SOFTDEV_INLINE void gather_quads(uint64_t base, const A *at, uint32_t *const *d) {
  for (unsigned c = 0; c < kLanes; c += 8) {
    auto row = [&](unsigned j) {
      const __m256i low = _mm256_castsi128_si256(Access::load(base + at[c + j]));
      return _mm256_inserti128_si256(low, Access::load(base + at[c + j + 4]), 1);
    };
    const Turned words = turn(row(0), row(1), row(2), row(3));
    auto put = [&](unsigned k, __m256i value) {
      if (d[k]) _mm256_store_si256(reinterpret_cast<__m256i *>(d[k] + c), value);
    };
    put(0, words.first);
    put(1, words.second);
    put(2, words.third);
    put(3, words.fourth);
  }
}
template <class Access, class A>
SOFTDEV_INLINE void scatter_quads(uint64_t base, const A *at, const uint32_t *const *s) {
  for (unsigned c = 0; c < kLanes; c += 8) {
    auto column = [&](unsigned k) {
      return _mm256_load_si256(reinterpret_cast<const __m256i *>(s[k] + c));
    };
    const Turned rows = turn(column(0), column(1), column(2), column(3));
    const __m256i row[] = {rows.first, rows.second, rows.third, rows.fourth};
    for (unsigned j = 0; j < 4; ++j)
      Access::store(base + at[c + j], _mm256_castsi256_si128(row[j]));
    for (unsigned j = 0; j < 4; ++j)
      Access::store(base + at[c + j + 4], _mm256_extracti128_si256(row[j], 1));
  }
}
#endif

SOFTDEV_INLINE uint32_t destination(const Ins *i, unsigned k) {
  return i->count ? i->list[k] : i->d;
}
SOFTDEV_INLINE uint32_t source(const Ins *i, unsigned k) { return i->count ? i->list[k] : i->b; }

// All elements of all lanes, at addresses that were found good, in memory that is of one thread.
template <class M, class R, class A>
SOFTDEV_INLINE void load_elements(Warp &w, const Ins *i, uint64_t base, const A *at) {
  const unsigned count = i->count ? i->count : 1;
#ifdef __AVX2__
  if constexpr (sizeof(M) == 4 && sizeof(R) == 4) {
    if (count == 4) {
      uint32_t *d[4];
      for (unsigned k = 0; k < 4; ++k)
        d[k] = i->list[k] == kNone ? nullptr : slot<uint32_t>(w, i->list[k]);
      return gather_quads<AnyRow>(base, at, d);
    }
  }
#endif
  for (unsigned k = 0; k < count; ++k)
    if (destination(i, k) != kNone)
      gather_lanes<M>(base + k * sizeof(M), at, slot<R>(w, destination(i, k)),
                      static_cast<unsigned>(sizeof(M)) * count);
}
template <class M, class R, class A>
SOFTDEV_INLINE void store_elements(Warp &w, const Ins *i, uint64_t base, const A *at) {
  const unsigned count = i->count ? i->count : 1;
#ifdef __AVX2__
  if constexpr (sizeof(M) == 4 && sizeof(R) == 4) {
    if (count == 4) {
      const uint32_t *s[4];
      for (unsigned k = 0; k < 4; ++k) s[k] = slot<uint32_t>(w, i->list[k]);
      return scatter_quads<AnyRow>(base, at, s);
    }
  }
#endif
  for (unsigned k = 0; k < count; ++k)
    scatter_lanes<M>(base + k * sizeof(M), at, slot<R>(w, source(i, k)));
}

// Picks Of<M, R>::pick(ir), M being the type in memory and R that of the register's slot; it has
// the sign of the memory's, so that widening extends.
template <template <class, class> class Of>
Handler by_load_types(const Ir &ir) {
  switch (ir.memory_size * 100 + ir.register_size * 10 + (ir.sign ? 1 : 0)) {
    case 120:
      return Of<uint8_t, uint16_t>::pick(ir);
    case 121:
      return Of<int8_t, int16_t>::pick(ir);
    case 140:
      return Of<uint8_t, uint32_t>::pick(ir);
    case 141:
      return Of<int8_t, int32_t>::pick(ir);
    case 180:
      return Of<uint8_t, uint64_t>::pick(ir);
    case 181:
      return Of<int8_t, int64_t>::pick(ir);
    case 220:
    case 221:
      return Of<uint16_t, uint16_t>::pick(ir);
    case 240:
      return Of<uint16_t, uint32_t>::pick(ir);
    case 241:
      return Of<int16_t, int32_t>::pick(ir);
    case 280:
      return Of<uint16_t, uint64_t>::pick(ir);
    case 281:
      return Of<int16_t, int64_t>::pick(ir);
    case 440:
    case 441:
      return Of<uint32_t, uint32_t>::pick(ir);
    case 480:
      return Of<uint32_t, uint64_t>::pick(ir);
    case 481:
      return Of<int32_t, int64_t>::pick(ir);
    case 880:
    case 881:
      return Of<uint64_t, uint64_t>::pick(ir);
    default:
      return nullptr;
  }
}
template <template <class, class> class Of>
Handler by_store_types(const Ir &ir) {
  switch (ir.memory_size * 10 + ir.register_size) {
    case 12:
      return Of<uint8_t, uint16_t>::pick(ir);
    case 14:
      return Of<uint8_t, uint32_t>::pick(ir);
    case 18:
      return Of<uint8_t, uint64_t>::pick(ir);
    case 22:
      return Of<uint16_t, uint16_t>::pick(ir);
    case 24:
      return Of<uint16_t, uint32_t>::pick(ir);
    case 28:
      return Of<uint16_t, uint64_t>::pick(ir);
    case 44:
      return Of<uint32_t, uint32_t>::pick(ir);
    case 48:
      return Of<uint32_t, uint64_t>::pick(ir);
    case 88:
      return Of<uint64_t, uint64_t>::pick(ir);
    default:
      return nullptr;
  }
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
