// Loads and stores. Every access is checked against what the launch may touch.
//
// A full warp whose addresses are all good is done at once; what remains (some lanes only, other
// windows, faults) goes lane by lane.
#include "execute/lanes.h"
#include "execute/ops/families.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace softdev::SOFTDEV_ISA {
namespace {

constexpr uint8_t kRead = 1, kWrite = 2;

// Whether `size` bytes at an address aligned to `size` lie in the current window and may be used.
SOFTDEV_INLINE bool in_window(const Warp &w, uint64_t address, unsigned size, uint8_t flag) {
  uint64_t offset = address - w.window_base;
  return offset < w.window_size &&
         (__atomic_load_n(w.granules + (offset >> kGranuleShift), __ATOMIC_RELAXED) & flag) &&
         (address & (size - 1)) == 0;
}
// The same for a stretch of bytes, which may reach into a second granule.
SOFTDEV_INLINE bool range_in_window(const Warp &w, uint64_t address, unsigned bytes, unsigned align,
                                    uint8_t flag) {
  uint64_t offset = address - w.window_base;
  if (offset >= w.window_size || w.window_size - offset < bytes || (address & (align - 1)))
    return false;
  uint64_t last = offset + bytes - 1;
  return (__atomic_load_n(w.granules + (offset >> kGranuleShift), __ATOMIC_RELAXED) &
          __atomic_load_n(w.granules + (last >> kGranuleShift), __ATOMIC_RELAXED) & flag) != 0;
}
// Whether all lanes' addresses lie in one granule that may be used.
SOFTDEV_INLINE bool in_one_granule(const Warp &w, const uint64_t *at, uint8_t flag) {
  uint64_t granule = (at[0] - w.window_base) >> kGranuleShift, different = 0;
  SOFTDEV_LANES different |= ((at[l] - w.window_base) >> kGranuleShift) ^ granule;
  return different == 0 && at[0] - w.window_base < w.window_size &&
         (__atomic_load_n(w.granules + granule, __ATOMIC_RELAXED) & flag);
}
// Out of line: other windows, other spaces, and what is not allowed.
bool allowed(Warp &w, Space space, uint64_t address, unsigned size, uint8_t flag, unsigned lane) {
  return in_window(w, address, size, flag) ||
         ((address & (size - 1)) == 0 && memory_allowed(w, space, address, size, flag, lane));
}

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

// ---- all 32 lanes at once, at addresses that were found good

// What the addresses of a full warp have in common.
template <class A>
struct Shape {
  bool side_by_side, equal;
  A misaligned;  // low bits of any address
};
template <class A>
SOFTDEV_INLINE Shape<A> shape_of(const A *at, unsigned step) {
  A first = at[0], from_row = 0, from_first = 0, low = 0;
  SOFTDEV_LANES {
    from_row |= static_cast<A>(at[l] ^ static_cast<A>(first + l * step));
    from_first |= static_cast<A>(at[l] ^ first);
    low |= at[l];
  }
  return {from_row == 0, from_first == 0, low};
}

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

SOFTDEV_INLINE uint32_t destination(const Ins *i, unsigned k) {
  return i->count ? i->list[k] : i->d;
}
SOFTDEV_INLINE uint32_t source(const Ins *i, unsigned k) { return i->count ? i->list[k] : i->b; }

// ---- global, constant, generic, local, parameter addresses

// M: type in memory; R: type of the register's slot (M is extended to it).
template <class M, class R, class Access, Space space>
const Ins *load(Warp &w, const Ins *i) {
  const uint64_t *address = slot<uint64_t>(w, i->a);
  const unsigned count = i->count ? i->count : 1;
  const unsigned bytes = sizeof(M) * count;
  const auto offset = static_cast<uint64_t>(i->imm);
  constexpr bool kPlain = std::is_same_v<Access, Plain>;
  if constexpr (!kPlain) w.budget -= 16;  // it may be a loop that waits
  if (kPlain && w.mask == kFullMask) {
    // A copy: the first element of a vector may be loaded into the address register.
    alignas(64) uint64_t at[kLanes];
    SOFTDEV_LANES at[l] = address[l] + offset;
    Shape<uint64_t> shape = shape_of(at, sizeof(M));
    if (count == 1 && shape.side_by_side &&
        range_in_window(w, at[0], sizeof(M) * kLanes, sizeof(M), kRead)) {
      const M *from = reinterpret_cast<const M *>(at[0]);
      R *d = slot<R>(w, destination(i, 0));
      SOFTDEV_LANES d[l] = static_cast<R>(from[l]);
      return i + 1;
    }
    if (shape.equal && in_window(w, at[0], bytes, kRead)) {
      for (unsigned k = 0; k < count; ++k) {
        if (destination(i, k) == kNone) continue;
        R value = static_cast<R>(reinterpret_cast<const M *>(at[0])[k]);
        R *d = slot<R>(w, destination(i, k));
        SOFTDEV_LANES d[l] = value;
      }
      return i + 1;
    }
    if (in_one_granule(w, at, kRead) && !(shape.misaligned & (bytes - 1))) {
      for (unsigned k = 0; k < count; ++k)
        if (destination(i, k) != kNone)
          gather_lanes<M>(k * sizeof(M), at, slot<R>(w, destination(i, k)), bytes);
      return i + 1;
    }
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    uint64_t at = address[l] + offset;
    if (__builtin_expect(!in_window(w, at, bytes, kRead), 0) &&
        !allowed(w, space, at, bytes, kRead, l))
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
    Shape<uint64_t> shape = shape_of(at, sizeof(M));
    if (count == 1 && shape.side_by_side &&
        range_in_window(w, at[0], sizeof(M) * kLanes, sizeof(M), kWrite)) {
      M *to = reinterpret_cast<M *>(at[0]);
      const R *s = slot<R>(w, source(i, 0));
      SOFTDEV_LANES to[l] = static_cast<M>(s[l]);
      return i + 1;
    }
    if (in_one_granule(w, at, kWrite) && !(shape.misaligned & (bytes - 1))) {
      for (unsigned k = 0; k < count; ++k)
        scatter_lanes<M>(k * sizeof(M), at, slot<R>(w, source(i, k)));
      return i + 1;
    }
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    uint64_t at = address[l] + offset;
    if (__builtin_expect(!in_window(w, at, bytes, kWrite), 0) &&
        !allowed(w, space, at, bytes, kWrite, l))
      return memory_fault(w, i, space, at, bytes, true, l);
    M *to = reinterpret_cast<M *>(at);
    for (unsigned k = 0; k < count; ++k)
      Access::store(to + k, static_cast<M>(slot<R>(w, source(i, k))[l]));
  }
  return i + 1;
}

// ---- fixed places of the stack frame: in bounds by translation

template <class M, class R>
const Ins *load_frame(Warp &w, const Ins *i) {
  const unsigned count = i->count ? i->count : 1;
  const uint8_t *base = w.local + w.frame->local + i->imm;
  for (unsigned k = 0; k < count; ++k) {
    uint32_t to = destination(i, k);
    if (to == kNone) continue;
    R *d = slot<R>(w, to);
    running(w.mask, [&](unsigned l) {
      M value;
      std::memcpy(&value, base + uint64_t{l} * w.local_stride + k * sizeof(M), sizeof(M));
      d[l] = static_cast<R>(value);
    });
  }
  return i + 1;
}
template <class M, class R>
const Ins *store_frame(Warp &w, const Ins *i) {
  const unsigned count = i->count ? i->count : 1;
  uint8_t *base = w.local + w.frame->local + i->imm;
  for (unsigned k = 0; k < count; ++k) {
    const R *s = slot<R>(w, source(i, k));
    running(w.mask, [&](unsigned l) {
      M value = static_cast<M>(s[l]);
      std::memcpy(base + uint64_t{l} * w.local_stride + k * sizeof(M), &value, sizeof(M));
    });
  }
  return i + 1;
}

// ---- shared memory: A is the type of the address register

template <class A>
SOFTDEV_INLINE bool in_shared(const Warp &w, A address, unsigned bytes) {
  return address < w.shared_size && w.shared_size - address >= bytes && !(address & (bytes - 1));
}

template <class A>
SOFTDEV_INLINE bool all_in_shared(const Warp &w, const A *address, A offset, unsigned bytes,
                                  A *at) {
  A highest = 0, low = 0;
  SOFTDEV_LANES {
    at[l] = static_cast<A>(address[l] + offset);
    highest = at[l] > highest ? at[l] : highest;
    low |= at[l];
  }
  return in_shared(w, static_cast<A>(highest & ~static_cast<A>(bytes - 1)), bytes) &&
         !(low & (bytes - 1));
}

#ifdef __AVX2__
// What kernels do most: 32-bit elements at 32-bit addresses.
SOFTDEV_INLINE bool all_in_shared(const Warp &w, const uint32_t *address, uint32_t offset,
                                  unsigned bytes, uint32_t *at) {
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
         _mm256_testz_si256(low, _mm256_set1_epi32(static_cast<int>(bytes - 1)));
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

template <class M, class R, class A, class Access>
const Ins *load_shared(Warp &w, const Ins *i) {
  const A *address = slot<A>(w, i->a);
  const unsigned count = i->count ? i->count : 1;
  const unsigned bytes = sizeof(M) * count;
  const A offset = static_cast<A>(i->imm);
  if constexpr (!std::is_same_v<Access, Plain>) w.budget -= 16;
  if (w.mask == kFullMask) {
    alignas(64) A at[kLanes];
    if (all_in_shared(w, address, offset, bytes, at)) {
#ifdef __AVX2__
      if constexpr (sizeof(M) == 4 && sizeof(R) == 4 && sizeof(A) == 4) {
        for (unsigned k = 0; k < count; ++k)
          if (destination(i, k) != kNone)
            gather_words(w.shared + k * sizeof(M), at, slot<uint32_t>(w, destination(i, k)));
        return i + 1;
      }
#endif
      for (unsigned k = 0; k < count; ++k)
        if (destination(i, k) != kNone)
          gather_lanes<M>(reinterpret_cast<uint64_t>(w.shared) + k * sizeof(M), at,
                          slot<R>(w, destination(i, k)), bytes);
      return i + 1;
    }
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    A at = static_cast<A>(address[l] + offset);
    if (__builtin_expect(!in_shared(w, at, bytes), 0))
      return memory_fault(w, i, Space::Shared, at, bytes, false, l);
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
    if (all_in_shared(w, address, offset, bytes, at)) {
      for (unsigned k = 0; k < count; ++k)
        scatter_lanes<M>(reinterpret_cast<uint64_t>(w.shared) + k * sizeof(M), at,
                         slot<R>(w, source(i, k)));
      return i + 1;
    }
  }
  for (uint32_t left = w.mask; left; left &= left - 1) {
    auto l = static_cast<unsigned>(__builtin_ctz(left));
    A at = static_cast<A>(address[l] + offset);
    if (__builtin_expect(!in_shared(w, at, bytes), 0))
      return memory_fault(w, i, Space::Shared, at, bytes, true, l);
    M *to = reinterpret_cast<M *>(w.shared + at);
    for (unsigned k = 0; k < count; ++k) to[k] = static_cast<M>(slot<R>(w, source(i, k))[l]);
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
Handler pick_load(const Ir &ir) {
  if (!ir.a) return load_frame<M, R>;
  bool plain = ir.order == Order::Weak;
  bool narrow = ir.type2 == Type::U32;
  if (ir.space == Space::Shared) {
    if (narrow)
      return plain ? load_shared<M, R, uint32_t, Plain> : load_shared<M, R, uint32_t, Ordered>;
    return plain ? load_shared<M, R, uint64_t, Plain> : load_shared<M, R, uint64_t, Ordered>;
  }
  if (narrow) return nullptr;
  switch (ir.space) {
    case Space::Global:
      return plain ? load<M, R, Plain, Space::Global> : load<M, R, Ordered, Space::Global>;
    case Space::Constant:
      return load<M, R, Plain, Space::Constant>;
    case Space::Local:
      return load<M, R, Plain, Space::Local>;
    case Space::Param:
      return load<M, R, Plain, Space::Param>;
    default:
      return plain ? load<M, R, Plain, Space::Generic> : load<M, R, Ordered, Space::Generic>;
  }
}
template <class M, class R>
Handler pick_store(const Ir &ir) {
  if (!ir.a) return store_frame<M, R>;
  bool plain = ir.order == Order::Weak;
  bool narrow = ir.type2 == Type::U32;
  if (ir.space == Space::Shared) {
    if (narrow)
      return plain ? store_shared<M, R, uint32_t, Plain> : store_shared<M, R, uint32_t, Ordered>;
    return plain ? store_shared<M, R, uint64_t, Plain> : store_shared<M, R, uint64_t, Ordered>;
  }
  if (narrow) return nullptr;
  switch (ir.space) {
    case Space::Global:
      return plain ? store<M, R, Plain, Space::Global> : store<M, R, Ordered, Space::Global>;
    case Space::Local:
      return store<M, R, Plain, Space::Local>;
    case Space::Generic:
      return plain ? store<M, R, Plain, Space::Generic> : store<M, R, Ordered, Space::Generic>;
    default:
      return nullptr;
  }
}

// The slot's type has the sign of the memory's, so that widening extends.
Handler pick_load(const Ir &ir) {
  switch (ir.memory_size * 100 + ir.register_size * 10 + (ir.sign ? 1 : 0)) {
    case 120:
      return pick_load<uint8_t, uint16_t>(ir);
    case 121:
      return pick_load<int8_t, int16_t>(ir);
    case 140:
      return pick_load<uint8_t, uint32_t>(ir);
    case 141:
      return pick_load<int8_t, int32_t>(ir);
    case 180:
      return pick_load<uint8_t, uint64_t>(ir);
    case 181:
      return pick_load<int8_t, int64_t>(ir);
    case 220:
    case 221:
      return pick_load<uint16_t, uint16_t>(ir);
    case 240:
      return pick_load<uint16_t, uint32_t>(ir);
    case 241:
      return pick_load<int16_t, int32_t>(ir);
    case 280:
      return pick_load<uint16_t, uint64_t>(ir);
    case 281:
      return pick_load<int16_t, int64_t>(ir);
    case 440:
    case 441:
      return pick_load<uint32_t, uint32_t>(ir);
    case 480:
      return pick_load<uint32_t, uint64_t>(ir);
    case 481:
      return pick_load<int32_t, int64_t>(ir);
    case 880:
    case 881:
      return pick_load<uint64_t, uint64_t>(ir);
    default:
      return nullptr;
  }
}
Handler pick_store(const Ir &ir) {
  switch (ir.memory_size * 10 + ir.register_size) {
    case 12:
      return pick_store<uint8_t, uint16_t>(ir);
    case 14:
      return pick_store<uint8_t, uint32_t>(ir);
    case 18:
      return pick_store<uint8_t, uint64_t>(ir);
    case 22:
      return pick_store<uint16_t, uint16_t>(ir);
    case 24:
      return pick_store<uint16_t, uint32_t>(ir);
    case 28:
      return pick_store<uint16_t, uint64_t>(ir);
    case 44:
      return pick_store<uint32_t, uint32_t>(ir);
    case 48:
      return pick_store<uint32_t, uint64_t>(ir);
    case 88:
      return pick_store<uint64_t, uint64_t>(ir);
    default:
      return nullptr;
  }
}

}  // namespace

Handler select_memory(const Ir &ir) {
  switch (ir.op) {
    case Op::Load:
      return pick_load(ir);
    case Op::Store:
      return pick_store(ir);
    case Op::Fence:
      return fence;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
