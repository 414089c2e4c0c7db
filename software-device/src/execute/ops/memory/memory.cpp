// Loads and stores of global memory, constants and generic addresses, and fences; those of vectors
// are in memory_vector.cpp. Every access is checked against what the launch may touch.
//
// A full warp whose addresses are all good is done at once; what remains (some lanes only, other
// windows, faults) goes lane by lane.
#include "execute/ops/memory/memory.h"

#include <limits>

#include "execute/ops/families.h"
#include "execute/ops/memory/addresses.h"
#include "execute/shapes.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// Whether indices count up.
template <class I>
SOFTDEV_INLINE bool in_a_row(const I *index) {
  const uint32_t first = static_cast<uint32_t>(index[0]);
#ifdef __AVX512F__
  const __m512i row = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i wanted = _mm512_add_epi32(_mm512_set1_epi32(static_cast<int>(first)), row);
  const __mmask16 low = _mm512_cmpneq_epi32_mask(_mm512_load_si512(index), wanted);
  const __mmask16 high = _mm512_cmpneq_epi32_mask(_mm512_load_si512(index + 16),
                                                  _mm512_add_epi32(wanted, _mm512_set1_epi32(16)));
  return _mm512_kortestz(low, high) && index[kLanes - 1] > index[0];
#else
  return lanes_where([=](unsigned l) { return static_cast<uint32_t>(index[l]) == first + l; }) ==
             kFullMask &&
         index[kLanes - 1] > index[0];
#endif
}

template <class I>
SOFTDEV_INLINE uint64_t indexed(const Ins *i, uint64_t base, I index) {
  return base + static_cast<uint64_t>(int64_t{index} * (i->imm >> 32)) +
         static_cast<uint64_t>(int64_t{static_cast<int32_t>(i->imm)});
}
template <class M>
SOFTDEV_INLINE bool usable(Warp &w, uint64_t first, Use use) {
  return !(first & (sizeof(M) - 1)) && stretch_in_window(w, first, sizeof(M) * kLanes, use);
}

// Whether a full warp accesses one stretch of memory that it may use, lane behind lane, and where
// that begins. An index is added to a base that is the same for all lanes.
template <class M, class I>
SOFTDEV_INLINE bool stretch(Warp &w, const Ins *i, Use use, uint64_t *first) {
  const uint64_t *address = slot<uint64_t>(w, i->a);
  if constexpr (std::is_void_v<I>) {
    if (!evenly_spaced<sizeof(M)>(address)) return false;
    *first = address[0] + static_cast<uint64_t>(i->imm);
  } else {
    const I *index = slot<I>(w, i->c);
    if (i->imm >> 32 != sizeof(M) || !in_a_row(index)) return false;
    *first = indexed(i, address[0], index[0]);
  }
  return usable<M>(w, *first, use);
}
// The same where the base is in a register: it may be the same for all lanes; or the index is, and
// the bases lie behind one another.
template <class M, class I>
SOFTDEV_INLINE bool stretch_by_register(Warp &w, const Ins *i, Use use, uint64_t *first) {
  const uint64_t *address = slot<uint64_t>(w, i->a);
  if (evenly_spaced<0>(address)) return stretch<M, I>(w, i, use, first);
  const I *index = slot<I>(w, i->c);
  uint32_t different = 0;
  SOFTDEV_LANES different |= static_cast<uint32_t>(index[l] ^ index[0]);
  if (different || !evenly_spaced<sizeof(M)>(address)) return false;
  *first = indexed(i, address[0], index[0]);
  return usable<M>(w, *first, use);
}

// M: type in memory; R: type of the register's slot (M is extended to it).
template <class M, class R, class Access, Space space, class I>
__attribute__((noinline)) const Ins *load_anywhere(Warp &w, const Ins *i) {
  constexpr bool kPlain = std::is_same_v<Access, Plain>;
  constexpr Use kUse = use_of(space, false);
  if constexpr (!kPlain) w.budget -= 16;  // it may be a loop that waits
  // A copy: it may be loaded into the address register.
  alignas(64) uint64_t at[kLanes];
  find_addresses<I>(w, i, at);
  R *d = slot<R>(w, i->d);
  if (kPlain && w.mask == kFullMask) {
    if (evenly_spaced<0>(at) && in_window(w, at[0], sizeof(M), kUse)) {
      const R value = static_cast<R>(*reinterpret_cast<const M *>(at[0]));
      SOFTDEV_LANES d[l] = value;
      return i + 1;
    }
    if (all_allowed<space>(w, at, sizeof(M), false)) {
      gather_lanes<M>(0, at, d, sizeof(M));
      return i + 1;
    }
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    if (!may_access(w, space, at[l], sizeof(M), false, l))
      return memory_fault(w, i, space, at[l], sizeof(M), false, l);
    d[l] = static_cast<R>(Access::load(reinterpret_cast<const M *>(at[l])));
  }
  return i + 1;
}

// A load in a loop, lane behind lane, at `first`: where the last three were as far from one
// another, the processor is told what will be wanted a few turns later. It finds small steps
// itself.
template <class M>
SOFTDEV_INLINE void look_ahead(Warp &w, const Ins *i, uint64_t first) {
  constexpr uint64_t kLarge = 2048, kTurns = 4, kLine = 64;
  auto *seen = slot<uint64_t>(w, i->e);
  const uint64_t step = first - seen[0];
  const bool steady = step == seen[1];
  seen[0] = first;
  seen[1] = step;
  if (!steady || step + kLarge < 2 * kLarge) return;
  for (uint64_t at = 0; at < kLanes * sizeof(M); at += kLine)
    __builtin_prefetch(reinterpret_cast<const void *>(first + kTurns * step + at));
}

template <class M, class R, class I, bool ahead>
SOFTDEV_INLINE const Ins *load_stretch(Warp &w, const Ins *i, uint64_t first) {
  if constexpr (ahead) look_ahead<M>(w, i, first);
  const M *from = reinterpret_cast<const M *>(first);
  R *d = slot<R>(w, i->d);
  SOFTDEV_LANES d[l] = static_cast<R>(from[l]);
  return next(w, i);
}
// Its base is in a register, and may yet be the same for all lanes.
template <class M, class R, class Access, Space space, class I, bool ahead>
__attribute__((noinline)) const Ins *load_by_register(Warp &w, const Ins *i) {
  uint64_t first;
  if (stretch_by_register<M, I>(w, i, use_of(space, false), &first))
    return load_stretch<M, R, I, ahead>(w, i, first);
  return load_anywhere<M, R, Access, space, I>(w, i);
}
template <class M, class R, class Access, Space space, class I = void, bool ahead = false>
const Ins *load(Warp &w, const Ins *i) {
  if (std::is_same_v<Access, Plain> && w.mask == kFullMask) {
    if constexpr (!std::is_void_v<I>)
      if (!(i->flags & kSameA)) return load_by_register<M, R, Access, space, I, ahead>(w, i);
    uint64_t first;
    if (stretch<M, I>(w, i, use_of(space, false), &first))
      return load_stretch<M, R, I, ahead>(w, i, first);
  }
  return load_anywhere<M, R, Access, space, I>(w, i);
}

// Its index counts up, and may be there for the first lane only (shapes.cpp).
template <class M, class I>
SOFTDEV_INLINE bool stretch_by_row(Warp &w, const Ins *i, Use use, uint64_t *first) {
  const I index = slot<I>(w, i->c)[0];
  *first = slot<uint64_t>(w, i->a)[0] + static_cast<uint64_t>(int64_t{index}) * sizeof(M) +
           static_cast<uint64_t>(int64_t{static_cast<int32_t>(i->imm)});
  return w.rows && w.mask == kFullMask &&
         index <= std::numeric_limits<I>::max() - static_cast<I>(kLanes - 1) &&
         usable<M>(w, *first, use);
}
template <class M, class I>
__attribute__((noinline)) const Ins *load_spread(Warp &w, const Ins *i) {
  if (w.rows) spread(w, i->c, 1);
  return load<M, M, Plain, Space::Global, I>(w, i);
}
template <class M, class I>
const Ins *load_row(Warp &w, const Ins *i) {
  uint64_t first;
  if (stretch_by_row<M, I>(w, i, kReads, &first)) return load_stretch<M, M, I, false>(w, i, first);
  return load_spread<M, I>(w, i);
}

template <class M, class R, class Access, Space space, class I>
__attribute__((noinline)) const Ins *store_anywhere(Warp &w, const Ins *i) {
  alignas(64) uint64_t at[kLanes];
  find_addresses<I>(w, i, at);
  const R *s = slot<R>(w, i->b);
  if (std::is_same_v<Access, Plain> && w.mask == kFullMask &&
      all_allowed<space>(w, at, sizeof(M), true)) {
    scatter_lanes<M>(0, at, s);
    return i + 1;
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    if (!may_access(w, space, at[l], sizeof(M), true, l))
      return memory_fault(w, i, space, at[l], sizeof(M), true, l);
    Access::store(reinterpret_cast<M *>(at[l]), static_cast<M>(s[l]));
  }
  return i + 1;
}
template <class M, class R>
SOFTDEV_INLINE const Ins *store_stretch(Warp &w, const Ins *i, uint64_t first) {
  M *to = reinterpret_cast<M *>(first);
  const R *s = slot<R>(w, i->b);
  SOFTDEV_LANES to[l] = static_cast<M>(s[l]);
  return next(w, i);
}
template <class M, class R, class Access, Space space, class I>
__attribute__((noinline)) const Ins *store_by_register(Warp &w, const Ins *i) {
  uint64_t first;
  if (stretch_by_register<M, I>(w, i, kWrites, &first)) return store_stretch<M, R>(w, i, first);
  return store_anywhere<M, R, Access, space, I>(w, i);
}
template <class M, class R, class Access, Space space, class I = void>
const Ins *store(Warp &w, const Ins *i) {
  if (std::is_same_v<Access, Plain> && w.mask == kFullMask) {
    if constexpr (!std::is_void_v<I>)
      if (!(i->flags & kSameA)) return store_by_register<M, R, Access, space, I>(w, i);
    uint64_t first;
    if (stretch<M, I>(w, i, kWrites, &first)) return store_stretch<M, R>(w, i, first);
  }
  return store_anywhere<M, R, Access, space, I>(w, i);
}

template <class M, class I>
__attribute__((noinline)) const Ins *store_spread(Warp &w, const Ins *i) {
  if (w.rows) spread(w, i->c, 1);
  return store<M, M, Plain, Space::Global, I>(w, i);
}
template <class M, class I>
const Ins *store_row(Warp &w, const Ins *i) {
  uint64_t first;
  if (stretch_by_row<M, I>(w, i, kWrites, &first)) return store_stretch<M, M>(w, i, first);
  return store_spread<M, I>(w, i);
}

const Ins *fence(Warp &, const Ins *i) {
  if (i->mode) {
#ifdef __SANITIZE_THREAD__  // which knows no fences: an access that orders as much
    static int order;
    __atomic_fetch_add(&order, 0, __ATOMIC_SEQ_CST);
#else
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
#endif
  } else {
    __asm__ volatile("" ::: "memory");
  }
  return i + 1;
}

// ---- selection

template <class M, class R, class I>
Handler global(const Ir &ir) {
  if constexpr (std::is_same_v<M, R> && sizeof(M) >= 4 && !std::is_void_v<I>)
    if (ir.shaped) return load_row<M, I>;
  if constexpr (std::is_same_v<M, R> && sizeof(M) >= 4)
    if (ir.e) return load<M, R, Plain, Space::Global, I, true>;  // only what ahead.cpp makes
  return ir.e ? nullptr : load<M, R, Plain, Space::Global, I>;
}
template <class M, class R>
struct Loads {
  static Handler pick(const Ir &ir) {
    bool plain = ir.order == Order::Weak;
    if (ir.c) {  // only what address.cpp makes
      if constexpr (std::is_same_v<M, R> && sizeof(M) >= 4)
        return ir.type3 == Type::S32 ? global<M, R, int32_t>(ir) : global<M, R, uint32_t>(ir);
      return nullptr;
    }
    switch (ir.space) {
      case Space::Global:
        return plain ? global<M, R, void>(ir) : load<M, R, Ordered, Space::Global>;
      case Space::Constant:
        return load<M, R, Plain, Space::Constant>;
      default:
        return plain ? load<M, R, Plain, Space::Generic> : load<M, R, Ordered, Space::Generic>;
    }
  }
};
template <class M, class R>
struct Stores {
  static Handler pick(const Ir &ir) {
    bool plain = ir.order == Order::Weak;
    if (ir.c) {
      if constexpr (std::is_same_v<M, R> && sizeof(M) >= 4) {
        if (ir.shaped)
          return ir.type3 == Type::S32 ? store_row<M, int32_t> : store_row<M, uint32_t>;
        return ir.type3 == Type::S32 ? store<M, R, Plain, Space::Global, int32_t>
                                     : store<M, R, Plain, Space::Global, uint32_t>;
      }
      return nullptr;
    }
    switch (ir.space) {
      case Space::Global:
        return plain ? store<M, R, Plain, Space::Global> : store<M, R, Ordered, Space::Global>;
      case Space::Generic:
        return plain ? store<M, R, Plain, Space::Generic> : store<M, R, Ordered, Space::Generic>;
      default:
        return nullptr;
    }
  }
};

}  // namespace

Handler select_memory(const Ir &ir) {
  if (ir.op == Op::Fence) return fence;
  bool here =
      ir.space == Space::Global || ir.space == Space::Constant || ir.space == Space::Generic;
  if (!ir.a || !here || ir.type2 == Type::U32) return nullptr;
  if (ir.list_count) return select_memory_vector(ir);
  if (ir.op == Op::Load) return by_load_types<Loads>(ir);
  if (ir.op == Op::Store) return by_store_types<Stores>(ir);
  return nullptr;
}

}  // namespace softdev::SOFTDEV_ISA
