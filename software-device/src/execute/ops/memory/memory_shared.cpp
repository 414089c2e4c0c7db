// Loads and stores of shared memory, addressed by offset.
#include "execute/ops/families.h"
#include "execute/ops/memory/memory.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace softdev::SOFTDEV_ISA {
namespace {

// A is the type of the address register.

template <class A>
SOFTDEV_INLINE bool in_shared(const Warp &w, A address, unsigned bytes, unsigned align) {
  return address < w.shared_size && w.shared_size - address >= bytes && !(address & (align - 1));
}

template <class A>
SOFTDEV_INLINE bool all_in_shared(const Warp &w, const A *address, A offset, unsigned bytes,
                                  unsigned align, A *at) {
  A highest = 0, low = 0;
  SOFTDEV_LANES {
    at[l] = static_cast<A>(address[l] + offset);
    highest = at[l] > highest ? at[l] : highest;
    low |= at[l];
  }
  return bytes <= w.shared_size && highest <= w.shared_size - bytes && !(low & (align - 1));
}

#ifdef __AVX2__
// What kernels do most: 32-bit elements at 32-bit addresses.
SOFTDEV_INLINE bool all_in_shared(const Warp &w, const uint32_t *address, uint32_t offset,
                                  unsigned bytes, unsigned align, uint32_t *at) {
  if (w.shared_size < bytes) return false;
  const __m256i last = _mm256_set1_epi32(static_cast<int>(w.shared_size - bytes));
  const __m256i add = _mm256_set1_epi32(static_cast<int>(offset));
  __m256i highest = _mm256_setzero_si256(), low = highest;
  for (unsigned c = 0; c < kLanes; c += 8) {
    auto *from = reinterpret_cast<const __m256i *>(address + c);
    __m256i v = _mm256_add_epi32(_mm256_load_si256(from), add);
    _mm256_store_si256(reinterpret_cast<__m256i *>(at + c), v);
    highest = _mm256_max_epu32(highest, v);
    low = _mm256_or_si256(low, v);
  }
  __m256i good = _mm256_cmpeq_epi32(_mm256_max_epu32(highest, last), last);
  return _mm256_movemask_epi8(good) == -1 &&
         _mm256_testz_si256(low, _mm256_set1_epi32(static_cast<int>(align - 1)));
}
SOFTDEV_INLINE void gather_words(const uint8_t *base, const uint32_t *at, uint32_t *d) {
  const __m256i row = _mm256_setr_epi32(0, 4, 8, 12, 16, 20, 24, 28);
  for (unsigned c = 0; c < kLanes; c += 8) {
    __m256i v = _mm256_load_si256(reinterpret_cast<const __m256i *>(at + c));
    __m256i first = _mm256_set1_epi32(static_cast<int>(at[c])), value;
    const uint8_t *from = base + at[c];
    if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(v, _mm256_add_epi32(first, row))) == -1)
      value = _mm256_loadu_si256(reinterpret_cast<const __m256i *>(from));
    else if (_mm256_movemask_epi8(_mm256_cmpeq_epi32(v, first)) == -1)
      value = _mm256_set1_epi32(*reinterpret_cast<const int *>(from));
    else
      value = _mm256_i32gather_epi32(reinterpret_cast<const int *>(base), v, 1);
    _mm256_store_si256(reinterpret_cast<__m256i *>(d + c), value);
  }
}
#endif

// A load of several elements that neighbours.cpp made of several loads: the one that is bad.
template <class M, class A>
const Ins *element_fault(Warp &w, const Ins *i, A at, unsigned lane) {
  while (in_shared(w, at, sizeof(M), sizeof(M))) at += sizeof(M);
  return memory_fault(w, i, Space::Shared, at, sizeof(M), false, lane);
}

template <class M, class R, class A, class Access>
const Ins *load_shared(Warp &w, const Ins *i) {
  const A *address = slot<A>(w, i->a);
  const unsigned count = i->count ? i->count : 1;
  const unsigned bytes = sizeof(M) * count;
  const bool apart = i->flags & kUnaligned;
  const unsigned align = apart ? static_cast<unsigned>(sizeof(M)) : bytes;
  const A offset = static_cast<A>(i->imm);
  if constexpr (!std::is_same_v<Access, Plain>) w.budget -= 16;
  if (w.mask == kFullMask) {
    alignas(64) A at[kLanes];
    if (all_in_shared(w, address, offset, bytes, align, at)) {
#ifdef __AVX2__
      if constexpr (sizeof(M) == 4 && sizeof(R) == 4 && sizeof(A) == 4) {
        if (!i->count) {
          gather_words(w.shared, at, slot<uint32_t>(w, i->d));
          return next(w, i);
        }
      }
#endif
      load_elements<M, R>(w, i, reinterpret_cast<uint64_t>(w.shared), at);
      return next(w, i);
    }
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    A at = static_cast<A>(address[l] + offset);
    if (__builtin_expect(!in_shared(w, at, bytes, align), 0))
      return apart ? element_fault<M>(w, i, at, l)
                   : memory_fault(w, i, Space::Shared, at, bytes, false, l);
    const M *from = reinterpret_cast<const M *>(w.shared + at);
    for (unsigned k = 0; k < count; ++k)
      if (destination(i, k) != kNone) slot<R>(w, destination(i, k))[l] = static_cast<R>(from[k]);
  }
  return i + 1;
}

template <class M, class R, class A, class Access>
const Ins *store_shared(Warp &w, const Ins *i) {
  const A *address = slot<A>(w, i->a);
  const unsigned count = i->count ? i->count : 1;
  const unsigned bytes = sizeof(M) * count;
  const A offset = static_cast<A>(i->imm);
  if (w.mask == kFullMask) {
    alignas(64) A at[kLanes];
    if (all_in_shared(w, address, offset, bytes, bytes, at)) {
      store_elements<M, R>(w, i, reinterpret_cast<uint64_t>(w.shared), at);
      return next(w, i);
    }
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    A at = static_cast<A>(address[l] + offset);
    if (__builtin_expect(!in_shared(w, at, bytes, bytes), 0))
      return memory_fault(w, i, Space::Shared, at, bytes, true, l);
    M *to = reinterpret_cast<M *>(w.shared + at);
    for (unsigned k = 0; k < count; ++k) to[k] = static_cast<M>(slot<R>(w, source(i, k))[l]);
  }
  return i + 1;
}

// ---- selection

template <class M, class R>
struct Loads {
  static Handler pick(const Ir &ir) {
    bool plain = ir.order == Order::Weak;
    if (ir.type2 == Type::U32)
      return plain ? load_shared<M, R, uint32_t, Plain> : load_shared<M, R, uint32_t, Ordered>;
    return plain ? load_shared<M, R, uint64_t, Plain> : load_shared<M, R, uint64_t, Ordered>;
  }
};
template <class M, class R>
struct Stores {
  static Handler pick(const Ir &ir) {
    bool plain = ir.order == Order::Weak;
    if (ir.type2 == Type::U32)
      return plain ? store_shared<M, R, uint32_t, Plain> : store_shared<M, R, uint32_t, Ordered>;
    return plain ? store_shared<M, R, uint64_t, Plain> : store_shared<M, R, uint64_t, Ordered>;
  }
};

}  // namespace

Handler select_memory_shared(const Ir &ir) {
  if (!ir.a || ir.space != Space::Shared) return nullptr;
  if (ir.op == Op::Load) return by_load_types<Loads>(ir);
  if (ir.op == Op::Store) return by_store_types<Stores>(ir);
  return nullptr;
}

}  // namespace softdev::SOFTDEV_ISA
