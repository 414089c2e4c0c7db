// Accesses of aligned places of up to 16 bytes that others see whole or not at all. GPUs have them,
// and programs rely on them, though PTX promises no more than single elements. Included by ops/
// only.
#pragma once

#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "execute/lanes.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// 16 bytes, the lower half first.
using Pair = uint64_t __attribute__((vector_size(16)));

#ifdef __x86_64__
// Stores `desired` if `*p` is `expected`; what was there comes back in `expected`. Every 64-bit
// processor since 2006 has it, though the portable instruction set does not.
SOFTDEV_INLINE bool exchange_if(Pair *p, Pair *expected, Pair desired) {
  bool equal;
  uint64_t low = (*expected)[0], high = (*expected)[1];
  __asm__ volatile("lock cmpxchg16b %1"
                   : "=@ccz"(equal), "+m"(*p), "+a"(low), "+d"(high)
                   : "b"(static_cast<uint64_t>(desired[0])), "c"(static_cast<uint64_t>(desired[1]))
                   : "memory");
  *expected = Pair{low, high};
  return equal;
}
#else
SOFTDEV_INLINE bool exchange_if(Pair *p, Pair *expected, Pair desired) {
  auto e = bit_cast<unsigned __int128>(*expected);
  const bool equal = __atomic_compare_exchange_n(reinterpret_cast<unsigned __int128 *>(p), &e,
                                                 bit_cast<unsigned __int128>(desired), false,
                                                 __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  *expected = bit_cast<Pair>(e);
  return equal;
}
#endif

// By exchanges, where plain accesses of 16 bytes may come in pieces.
SOFTDEV_INLINE Pair load_by_exchange(Pair *p) {
  Pair value = {0, 0};
  exchange_if(p, &value, value);
  return value;
}
SOFTDEV_INLINE void store_by_exchange(Pair *p, Pair value) {
  Pair before = {0, 0};
  while (!exchange_if(p, &before, value)) {
  }
}

// Intel and AMD promise that these moves are whole on processors that have AVX. Written out, as a
// compiler may load in pieces, or twice, what it takes for nobody else's.
SOFTDEV_INLINE Pair load_whole(const Pair *p) {
#if defined(__AVX__)
  Pair value;
  __asm__("vmovdqa %1, %0" : "=x"(value) : "m"(*p));
  return value;
#elif defined(__x86_64__)
  if (__builtin_expect(__builtin_cpu_supports("avx"), 1)) {
    Pair value;
    __asm__("movdqa %1, %0" : "=x"(value) : "m"(*p));
    return value;
  }
  return load_by_exchange(const_cast<Pair *>(p));
#else
  return load_by_exchange(const_cast<Pair *>(p));
#endif
}
SOFTDEV_INLINE void store_whole(Pair *p, Pair value) {
#if defined(__AVX__)
  __asm__("vmovdqa %1, %0" : "=m"(*p) : "x"(value));
#elif defined(__x86_64__)
  if (__builtin_expect(__builtin_cpu_supports("avx"), 1))
    __asm__("movdqa %1, %0" : "=m"(*p) : "x"(value));
  else
    store_by_exchange(p, value);
#else
  store_by_exchange(p, value);
#endif
}
template <class T>
SOFTDEV_INLINE T load_whole(const T *p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
template <class T>
SOFTDEV_INLINE void store_whole(T *p, T value) {
  __atomic_store_n(p, value, __ATOMIC_RELAXED);
}

// 16 bytes at each of the addresses base + at[l], as two columns: the lower halves and the upper
// ones.
template <class A>
SOFTDEV_INLINE void gather_pairs(uint64_t base, const A *at, uint64_t *low, uint64_t *high) {
  auto row = [&](unsigned l) { return load_whole(reinterpret_cast<const Pair *>(base + at[l])); };
#ifdef __AVX2__
  for (unsigned l = 0; l < kLanes; l += 4) {
    auto two = [&](unsigned k) {
      return _mm256_inserti128_si256(_mm256_castsi128_si256(reinterpret_cast<__m128i>(row(l + k))),
                                     reinterpret_cast<__m128i>(row(l + k + 2)), 1);
    };
    const __m256i even = two(0), odd = two(1);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(low + l), _mm256_unpacklo_epi64(even, odd));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(high + l), _mm256_unpackhi_epi64(even, odd));
  }
#else
  for (unsigned l = 0; l < kLanes; ++l) {
    const Pair value = row(l);
    low[l] = value[0];
    high[l] = value[1];
  }
#endif
}
// In order of lanes: of those that write one place, the last one stays.
template <class A>
SOFTDEV_INLINE void scatter_pairs(uint64_t base, const A *at, const uint64_t *low,
                                  const uint64_t *high) {
  for (unsigned l = 0; l < kLanes; ++l)
    store_whole(reinterpret_cast<Pair *>(base + at[l]), Pair{low[l], high[l]});
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
