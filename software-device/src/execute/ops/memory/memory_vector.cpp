// Loads and stores of vectors in global memory, constants and at generic addresses. Up to 16 bytes
// are one access (whole.h), and so are both halves of 32.
#include "execute/ops/memory/addresses.h"
#include "execute/ops/memory/memory.h"

namespace softdev::SOFTDEV_ISA {
namespace {

template <class T>
struct Is {
  using Type = T;
};
// f with the type of what is accessed at once: an integer of the vector's size, or 16 bytes.
template <class M, class F>
SOFTDEV_INLINE void by_size(unsigned bytes, F f) {
  if constexpr (sizeof(M) == 1)
    if (bytes == 2) return f(Is<uint16_t>());
  if constexpr (sizeof(M) <= 2)
    if (bytes == 4) return f(Is<uint32_t>());
  if constexpr (sizeof(M) <= 4)
    if (bytes == 8) return f(Is<uint64_t>());
  if constexpr (sizeof(M) >= 2) return f(Is<Pair>());
}

// Elements in and out of what is accessed at once.
template <class M, class Chunk>
SOFTDEV_INLINE M element(Chunk chunk, unsigned k) {
  if constexpr (std::is_same_v<Chunk, Pair>)
    return static_cast<M>(chunk[k * sizeof(M) / 8] >> k * sizeof(M) % 8 * 8);
  else
    return static_cast<M>(chunk >> k * sizeof(M) * 8);
}
template <class M, class Word>
SOFTDEV_INLINE Word in_place(M value, unsigned k) {
  return static_cast<Word>(static_cast<Word>(static_cast<std::make_unsigned_t<M>>(value))
                           << k * sizeof(M) % sizeof(Word) * 8);
}
// What was loaded into an array is not loaded again, in smaller pieces.
template <class T>
SOFTDEV_INLINE void settle(T (&array)[kLanes]) {
  __asm__("" : "+m"(array));
}

// ---- all lanes at once

// Elements `first` to `first + n - 1` from words of all lanes.
template <class M, class R, class Word>
SOFTDEV_INLINE void take_apart(Warp &w, const Ins *i, unsigned first, const Word *words) {
  for (unsigned k = 0; k < sizeof(Word) / sizeof(M); ++k) {
    if (i->list[first + k] == kNone) continue;
    R *d = slot<R>(w, i->list[first + k]);
    SOFTDEV_LANES d[l] = static_cast<R>(element<M>(words[l], k));
  }
}
template <class M, class R, class Word>
SOFTDEV_INLINE void put_together(Warp &w, const Ins *i, unsigned first, Word *words) {
  for (unsigned k = 0; k < sizeof(Word) / sizeof(M); ++k) {
    const R *s = slot<R>(w, i->list[first + k]);
    if (k == 0)
      SOFTDEV_LANES words[l] = in_place<M, Word>(static_cast<M>(s[l]), k);
    else
      SOFTDEV_LANES words[l] |= in_place<M, Word>(static_cast<M>(s[l]), k);
  }
}

// Elements from `first` on that lie in 16 bytes.
template <class M, class R>
SOFTDEV_INLINE void load_pairs(Warp &w, const Ins *i, unsigned first, const uint64_t *at) {
  const uint64_t offset = first * sizeof(M);
  alignas(64) uint64_t low[kLanes], high[kLanes];
  if constexpr (sizeof(M) == 8) {
    const uint32_t *to = i->list + first;
    gather_pairs(offset, at, to[0] == kNone ? low : slot<uint64_t>(w, to[0]),
                 to[1] == kNone ? high : slot<uint64_t>(w, to[1]));
    return;
  }
#ifdef __AVX2__
  if constexpr (sizeof(M) == 4 && sizeof(R) == 4) {
    uint32_t *d[4];
    for (unsigned k = 0; k < 4; ++k)
      d[k] = i->list[first + k] == kNone ? nullptr : slot<uint32_t>(w, i->list[first + k]);
    return gather_quads<WholeRow>(offset, at, d);
  }
#endif
  gather_pairs(offset, at, low, high);
  take_apart<M, R>(w, i, first, low);
  take_apart<M, R>(w, i, first + 8 / sizeof(M), high);
}
template <class M, class R>
SOFTDEV_INLINE void store_pairs(Warp &w, const Ins *i, unsigned first, const uint64_t *at) {
  const uint64_t offset = first * sizeof(M);
  if constexpr (sizeof(M) == 8)
    return scatter_pairs(offset, at, slot<uint64_t>(w, i->list[first]),
                         slot<uint64_t>(w, i->list[first + 1]));
#ifdef __AVX2__
  if constexpr (sizeof(M) == 4 && sizeof(R) == 4) {
    const uint32_t *s[4];
    for (unsigned k = 0; k < 4; ++k) s[k] = slot<uint32_t>(w, i->list[first + k]);
    return scatter_quads<WholeRow>(offset, at, s);
  }
#endif
  alignas(64) uint64_t low[kLanes], high[kLanes];
  put_together<M, R>(w, i, first, low);
  put_together<M, R>(w, i, first + 8 / sizeof(M), high);
  scatter_pairs(offset, at, low, high);
}

template <class M, class R>
SOFTDEV_INLINE void load_all(Warp &w, const Ins *i, unsigned bytes, const uint64_t *at) {
  by_size<M>(bytes, [&](auto is) {
    using Chunk = typename decltype(is)::Type;
    if constexpr (std::is_same_v<Chunk, Pair>) {
      for (unsigned first = 0; first < i->count; first += sizeof(Pair) / sizeof(M))
        load_pairs<M, R>(w, i, first, at);
    } else {
      alignas(64) Chunk chunks[kLanes];
      gather_lanes<Chunk>(0, at, chunks, sizeof(Chunk));
      settle(chunks);
      take_apart<M, R>(w, i, 0, chunks);
    }
  });
}
template <class M, class R>
SOFTDEV_INLINE void store_all(Warp &w, const Ins *i, unsigned bytes, const uint64_t *at) {
  by_size<M>(bytes, [&](auto is) {
    using Chunk = typename decltype(is)::Type;
    if constexpr (std::is_same_v<Chunk, Pair>) {
      for (unsigned first = 0; first < i->count; first += sizeof(Pair) / sizeof(M))
        store_pairs<M, R>(w, i, first, at);
    } else {
      alignas(64) Chunk chunks[kLanes];
      put_together<M, R>(w, i, 0, chunks);
      settle(chunks);
      scatter_lanes<Chunk>(0, at, chunks);
    }
  });
}

// ---- some lanes, or one place for all

// f(k, value) for each element at an address.
template <class M, class F>
SOFTDEV_INLINE void load_one(uint64_t at, const Ins *i, unsigned bytes, F f) {
  by_size<M>(bytes, [&](auto is) {
    using Chunk = typename decltype(is)::Type;
    constexpr unsigned n = sizeof(Chunk) / sizeof(M);
    for (unsigned first = 0; first < i->count; first += n) {
      const Chunk chunk = load_whole(reinterpret_cast<const Chunk *>(at + first * sizeof(M)));
      for (unsigned k = 0; k < n; ++k)
        if (i->list[first + k] != kNone) f(i->list[first + k], element<M>(chunk, k));
    }
  });
}
template <class M, class R>
SOFTDEV_INLINE void store_one(Warp &w, const Ins *i, unsigned bytes, uint64_t at, unsigned l) {
  by_size<M>(bytes, [&](auto is) {
    using Chunk = typename decltype(is)::Type;
    using Word = std::conditional_t<std::is_same_v<Chunk, Pair>, uint64_t, Chunk>;
    constexpr unsigned n = sizeof(Chunk) / sizeof(M), of_word = sizeof(Word) / sizeof(M);
    for (unsigned first = 0; first < i->count; first += n) {
      Word words[sizeof(Chunk) / sizeof(Word)] = {};
      for (unsigned k = 0; k < n; ++k)
        words[k / of_word] |=
            in_place<M, Word>(static_cast<M>(slot<R>(w, i->list[first + k])[l]), k % of_word);
      Chunk chunk;
      std::memcpy(&chunk, words, sizeof chunk);
      store_whole(reinterpret_cast<Chunk *>(at + first * sizeof(M)), chunk);
    }
  });
}

// ---- handlers

// Where each lane accesses, of whom all may. False after a fault.
template <Space space, bool write>
SOFTDEV_INLINE bool lanes_may(Warp &w, const Ins *i, const uint64_t *at, unsigned bytes) {
  if (w.mask == kFullMask && all_allowed<space>(w, at, bytes, write)) return true;
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    if (may_access(w, space, at[l], bytes, write, l)) continue;
    memory_fault(w, i, space, at[l], bytes, write, l);
    return false;
  }
  return true;
}

// M: type in memory; R: type of the register's slot (M is extended to it).
template <class M, class R, bool weak, Space space, class I = void>
const Ins *load(Warp &w, const Ins *i) {
  const unsigned bytes = sizeof(M) * i->count;
  // A copy: the first element may be loaded into the address register.
  alignas(64) uint64_t at[kLanes];
  find_addresses<I>(w, i, at);
  if (weak && w.mask == kFullMask && evenly_spaced<0>(at) &&
      in_window(w, at[0], bytes, use_of(space, false))) {
    load_one<M>(at[0], i, bytes, [&](uint32_t to, M value) {
      R *d = slot<R>(w, to);
      SOFTDEV_LANES d[l] = static_cast<R>(value);
    });
    return i + 1;
  }
  if (!lanes_may<space, false>(w, i, at, bytes)) return nullptr;
  if (weak && w.mask == kFullMask) {
    load_all<M, R>(w, i, bytes, at);
    return i + 1;
  }
  if constexpr (!weak) w.budget -= 16;  // it may be a loop that waits
  // The last lane first, as stores come in order of lanes: whoever sees what one lane has stored
  // sees what those before it have. GPUs keep 128 bytes together, and programs have a flag at the
  // end of each such line.
  for (uint32_t left = w.mask; left;) {
    const unsigned l = 31 - static_cast<unsigned>(__builtin_clz(left));
    left &= ~(1u << l);
    load_one<M>(at[l], i, bytes,
                [&](uint32_t to, M value) { slot<R>(w, to)[l] = static_cast<R>(value); });
    __asm__ volatile("" ::: "memory");
#ifndef __x86_64__
    if constexpr (!weak) __atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
  }
  return i + 1;
}

template <class M, class R, bool weak, Space space, class I = void>
const Ins *store(Warp &w, const Ins *i) {
  const unsigned bytes = sizeof(M) * i->count;
  alignas(64) uint64_t at[kLanes];
  find_addresses<I>(w, i, at);
  if (!lanes_may<space, true>(w, i, at, bytes)) return nullptr;
  if (weak && w.mask == kFullMask) {
    store_all<M, R>(w, i, bytes, at);
    return i + 1;
  }
  running(w.mask, [&](unsigned l) {
#ifndef __x86_64__
    if constexpr (!weak) __atomic_thread_fence(__ATOMIC_RELEASE);
#endif
    __asm__ volatile("" ::: "memory");
    store_one<M, R>(w, i, bytes, at[l], l);
  });
  return i + 1;
}

// ---- selection

template <class M, class R>
struct Loads {
  static Handler pick(const Ir &ir) {
    const bool weak = ir.order == Order::Weak;
    if (ir.c) {  // only what address.cpp makes
      if constexpr (std::is_same_v<M, R> && sizeof(M) >= 4)
        return ir.type3 == Type::S32 ? load<M, R, true, Space::Global, int32_t>
                                     : load<M, R, true, Space::Global, uint32_t>;
      return nullptr;
    }
    switch (ir.space) {
      case Space::Global:
        return weak ? load<M, R, true, Space::Global> : load<M, R, false, Space::Global>;
      case Space::Constant:
        return load<M, R, true, Space::Constant>;
      default:
        return weak ? load<M, R, true, Space::Generic> : load<M, R, false, Space::Generic>;
    }
  }
};
template <class M, class R>
struct Stores {
  static Handler pick(const Ir &ir) {
    const bool weak = ir.order == Order::Weak;
    if (ir.c) {
      if constexpr (std::is_same_v<M, R> && sizeof(M) >= 4)
        return ir.type3 == Type::S32 ? store<M, R, true, Space::Global, int32_t>
                                     : store<M, R, true, Space::Global, uint32_t>;
      return nullptr;
    }
    switch (ir.space) {
      case Space::Global:
        return weak ? store<M, R, true, Space::Global> : store<M, R, false, Space::Global>;
      case Space::Generic:
        return weak ? store<M, R, true, Space::Generic> : store<M, R, false, Space::Generic>;
      default:
        return nullptr;
    }
  }
};

}  // namespace

Handler select_memory_vector(const Ir &ir) {
  if (ir.e || ir.shaped) return nullptr;
  if (ir.op == Op::Load) return by_load_types<Loads>(ir);
  if (ir.op == Op::Store) return by_store_types<Stores>(ir);
  return nullptr;
}

}  // namespace softdev::SOFTDEV_ISA
