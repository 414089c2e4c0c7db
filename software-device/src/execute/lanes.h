// How handlers go over the 32 lanes of a warp. Included by every file of ops/, which are compiled
// once per instruction set; everything here has internal linkage so that the copies cannot mix.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

#ifdef __AVX2__
#include <immintrin.h>
#endif

#include "execute/select.h"
#include "execute/warp.h"

// Lanes are independent: reading one array and writing the same one is no obstacle.
#ifdef __clang__
#define SOFTDEV_LANES \
  _Pragma("clang loop vectorize(assume_safety)") for (unsigned l = 0; l < kLanes; ++l)
#else
#define SOFTDEV_LANES _Pragma("GCC ivdep") for (unsigned l = 0; l < kLanes; ++l)
#endif
#define SOFTDEV_INLINE inline __attribute__((always_inline))

namespace softdev::SOFTDEV_ISA {
namespace {

alignas(64) constexpr uint32_t kBit[kLanes] = {
    1u << 0,  1u << 1,  1u << 2,  1u << 3,  1u << 4,  1u << 5,  1u << 6,  1u << 7,
    1u << 8,  1u << 9,  1u << 10, 1u << 11, 1u << 12, 1u << 13, 1u << 14, 1u << 15,
    1u << 16, 1u << 17, 1u << 18, 1u << 19, 1u << 20, 1u << 21, 1u << 22, 1u << 23,
    1u << 24, 1u << 25, 1u << 26, 1u << 27, 1u << 28, 1u << 29, 1u << 30, 1u << 31};

template <class T>
SOFTDEV_INLINE T *slot(Warp &w, uint32_t offset) {
  return static_cast<T *>(__builtin_assume_aligned(w.regs + offset, 64));
}
SOFTDEV_INLINE uint32_t &predicate(Warp &w, uint32_t offset) {
  return *reinterpret_cast<uint32_t *>(w.regs + offset);
}
SOFTDEV_INLINE void set_predicate(Warp &w, uint32_t offset, uint32_t value) {
  uint32_t &d = predicate(w, offset);
  d = (d & ~w.mask) | (value & w.mask);
}

template <class To, class From>
SOFTDEV_INLINE To bit_cast(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

// On to the next instruction of a warp that is known to be full.
SOFTDEV_INLINE const Ins *next(Warp &w, const Ins *i) {
#ifdef SOFTDEV_STRAIGHT
  return i[1].run(w, i + 1);
#else
  (void)w;
  return i + 1;
#endif
}
// `inner`, which always ends at the next instruction, and straight on.
template <Handler inner>
__attribute__((flatten)) const Ins *straight(Warp &w, const Ins *i) {
  inner(w, i);
  return go_on(w, i + 1);
}

// The lanes of `mask` of d become those of v.
template <class D>
SOFTDEV_INLINE void blend(D *d, const D *v, uint32_t mask) {
  SOFTDEV_LANES d[l] = (mask & kBit[l]) ? v[l] : d[l];
}

// d[l] = f(l) for the running lanes. f must be harmless for any input of the others.
template <class D, class F>
SOFTDEV_INLINE const Ins *each(Warp &w, const Ins *i, F f) {
  D *d = slot<D>(w, i->d);
  if (__builtin_expect(w.mask == kFullMask, 1)) {
    SOFTDEV_LANES d[l] = f(l);
  } else {
    alignas(64) D v[kLanes];
    SOFTDEV_LANES v[l] = f(l);
    blend(d, v, w.mask);
  }
  return i + 1;
}

template <class D, class A, class F>
SOFTDEV_INLINE const Ins *map1(Warp &w, const Ins *i, F f) {
  const A *a = slot<A>(w, i->a);
  return each<D>(w, i, [=](unsigned l) { return f(a[l]); });
}
template <class D, class A, class B, class F>
SOFTDEV_INLINE const Ins *map2(Warp &w, const Ins *i, F f) {
  const A *a = slot<A>(w, i->a);
  const B *b = slot<B>(w, i->b);
  return each<D>(w, i, [=](unsigned l) { return f(a[l], b[l]); });
}
template <class D, class A, class B, class C, class F>
SOFTDEV_INLINE const Ins *map3(Warp &w, const Ins *i, F f) {
  const A *a = slot<A>(w, i->a);
  const B *b = slot<B>(w, i->b);
  const C *c = slot<C>(w, i->c);
  return each<D>(w, i, [=](unsigned l) { return f(a[l], b[l], c[l]); });
}

// f(lane) for the running lanes only, in order of lanes.
template <class F>
SOFTDEV_INLINE void running(uint32_t mask, F f) {
  for (uint32_t left = mask; left; left &= left - 1) f(static_cast<unsigned>(__builtin_ctz(left)));
}

// A lane mask of the lanes for which f(lane) holds.
template <class F>
SOFTDEV_INLINE uint32_t lanes_where(F f) {
#ifdef __AVX2__
  alignas(64) int32_t holds[kLanes];
  SOFTDEV_LANES holds[l] = f(l) ? -1 : 0;
#ifdef __AVX512DQ__
  const auto *at = reinterpret_cast<const __m512i *>(holds);
  return _mm512_movepi32_mask(at[0]) | static_cast<uint32_t>(_mm512_movepi32_mask(at[1])) << 16;
#else
  const auto *at = reinterpret_cast<const __m256 *>(holds);
  uint32_t mask = 0;
  for (unsigned c = 0; c < 4; ++c)
    mask |= static_cast<uint32_t>(_mm256_movemask_ps(at[c])) << c * 8;
  return mask;
#endif
#else
  uint32_t mask = 0;
  SOFTDEV_LANES mask |= f(l) ? kBit[l] : 0u;
  return mask;
#endif
}

inline uint32_t flushed(uint32_t bits) { return (bits & 0x7f800000u) ? bits : bits & 0x80000000u; }
// Subnormal inputs and results become zeros of their sign.
SOFTDEV_INLINE float flush(float x) { return bit_cast<float>(flushed(bit_cast<uint32_t>(x))); }
template <bool ftz>
SOFTDEV_INLINE float maybe_flush(float x) {
  return ftz ? flush(x) : x;
}
// The NaN that single-precision operations produce.
SOFTDEV_INLINE float canonical(float x) {
  return x == x ? x : bit_cast<float>(uint32_t{0x7fffffff});
}
SOFTDEV_INLINE double canonical(double x) { return x; }

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
