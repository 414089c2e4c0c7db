// Loads and stores of global memory, constants and generic addresses, and fences. Every access is
// checked against what the launch may touch.
//
// A full warp whose addresses are all good is done at once; what remains (some lanes only, other
// windows, faults) goes lane by lane.
#include "execute/ops/memory.h"

#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// What the addresses of a full warp have in common.
struct Shape {
  bool side_by_side, equal;
};
SOFTDEV_INLINE Shape shape_of(const uint64_t *at, unsigned step) {
  uint64_t first = at[0], from_row = 0, from_first = 0;
  SOFTDEV_LANES {
    from_row |= at[l] ^ (first + l * step);
    from_first |= at[l] ^ first;
  }
  return {from_row == 0, from_first == 0};
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
SOFTDEV_INLINE bool all_in_window(const Warp &w, const uint64_t *at, unsigned bytes, Use use) {
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
  if (lowest < w.window_base || highest - w.window_base >= w.window_size) return false;
  bool good = true;
  for (unsigned l = 0; l < kLanes; ++l) {
    uint64_t offset = at[l] - w.window_base;
    good &= granule_allows(granule_flags(w, offset >> kGranuleShift),
                           offset % kGranuleBytes + bytes, use);
  }
  return good;
}

// The same for any space; the memory of the block and of its threads has generic addresses too.
template <Space space>
SOFTDEV_INLINE bool all_allowed(const Warp &w, const uint64_t *at, unsigned bytes, bool write) {
  if (space == Space::Generic) {
    uint64_t base = reinterpret_cast<uint64_t>(w.shared);
    if (at[0] - base < w.shared_size) return all_in(at, base, w.shared_size, bytes);
  }
  return all_in_window(w, at, bytes, use_of(space, write));
}

// M: type in memory; R: type of the register's slot (M is extended to it).
template <class M, class R, class Access, Space space>
const Ins *load(Warp &w, const Ins *i) {
  constexpr bool kPlain = std::is_same_v<Access, Plain>;
  constexpr Use kUse = use_of(space, false);
  const uint64_t *address = slot<uint64_t>(w, i->a);
  const unsigned count = i->count ? i->count : 1;
  const unsigned bytes = sizeof(M) * count;
  const auto offset = static_cast<uint64_t>(i->imm);
  if constexpr (!kPlain) w.budget -= 16;  // it may be a loop that waits
  if (kPlain && w.mask == kFullMask) {
    // A copy: the first element of a vector may be loaded into the address register.
    alignas(64) uint64_t at[kLanes];
    SOFTDEV_LANES at[l] = address[l] + offset;
    const Shape shape = shape_of(at, sizeof(M));
    const bool aligned = !(at[0] & (bytes - 1));
    if (count == 1 && shape.side_by_side && aligned &&
        range_in_window(w, at[0], sizeof(M) * kLanes, kUse)) {
      const M *from = reinterpret_cast<const M *>(at[0]);
      R *d = slot<R>(w, destination(i, 0));
      SOFTDEV_LANES d[l] = static_cast<R>(from[l]);
      return i + 1;
    }
    if (shape.equal && in_window(w, at[0], bytes, kUse)) {
      for (unsigned k = 0; k < count; ++k) {
        if (destination(i, k) == kNone) continue;
        R value = static_cast<R>(reinterpret_cast<const M *>(at[0])[k]);
        R *d = slot<R>(w, destination(i, k));
        SOFTDEV_LANES d[l] = value;
      }
      return i + 1;
    }
    if (all_allowed<space>(w, at, bytes, false)) {
      for (unsigned k = 0; k < count; ++k)
        if (destination(i, k) != kNone)
          gather_lanes<M>(k * sizeof(M), at, slot<R>(w, destination(i, k)), bytes);
      return i + 1;
    }
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    uint64_t at = address[l] + offset;
    if (!may_access(w, space, at, bytes, false, l))
      return memory_fault(w, i, space, at, bytes, false, l);
    const M *from = reinterpret_cast<const M *>(at);
    if (count == 1) {
      slot<R>(w, destination(i, 0))[l] = static_cast<R>(Access::load(from));
      continue;
    }
    for (unsigned k = 0; k < count; ++k)
      if (i->list[k] != kNone) slot<R>(w, i->list[k])[l] = static_cast<R>(Access::load(from + k));
  }
  return i + 1;
}

template <class M, class R, class Access, Space space>
const Ins *store(Warp &w, const Ins *i) {
  const uint64_t *address = slot<uint64_t>(w, i->a);
  const unsigned count = i->count ? i->count : 1;
  const unsigned bytes = sizeof(M) * count;
  const auto offset = static_cast<uint64_t>(i->imm);
  if (std::is_same_v<Access, Plain> && w.mask == kFullMask) {
    alignas(64) uint64_t at[kLanes];
    SOFTDEV_LANES at[l] = address[l] + offset;
    const Shape shape = shape_of(at, sizeof(M));
    if (count == 1 && shape.side_by_side && !(at[0] & (sizeof(M) - 1)) &&
        range_in_window(w, at[0], sizeof(M) * kLanes, kWrites)) {
      M *to = reinterpret_cast<M *>(at[0]);
      const R *s = slot<R>(w, source(i, 0));
      SOFTDEV_LANES to[l] = static_cast<M>(s[l]);
      return i + 1;
    }
    if (all_allowed<space>(w, at, bytes, true)) {
      for (unsigned k = 0; k < count; ++k)
        scatter_lanes<M>(k * sizeof(M), at, slot<R>(w, source(i, k)));
      return i + 1;
    }
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    uint64_t at = address[l] + offset;
    if (!may_access(w, space, at, bytes, true, l))
      return memory_fault(w, i, space, at, bytes, true, l);
    M *to = reinterpret_cast<M *>(at);
    for (unsigned k = 0; k < count; ++k)
      Access::store(to + k, static_cast<M>(slot<R>(w, source(i, k))[l]));
  }
  return i + 1;
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

template <class M, class R>
struct Loads {
  static Handler pick(const Ir &ir) {
    bool plain = ir.order == Order::Weak;
    switch (ir.space) {
      case Space::Global:
        return plain ? load<M, R, Plain, Space::Global> : load<M, R, Ordered, Space::Global>;
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
  if (ir.op == Op::Load) return by_load_types<Loads>(ir);
  if (ir.op == Op::Store) return by_store_types<Stores>(ir);
  return nullptr;
}

}  // namespace softdev::SOFTDEV_ISA
