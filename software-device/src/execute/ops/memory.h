// What loads and stores of all spaces share. Included by the memory_*.cpp files.
#pragma once

#include "execute/access.h"

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

SOFTDEV_INLINE uint32_t destination(const Ins *i, unsigned k) {
  return i->count ? i->list[k] : i->d;
}
SOFTDEV_INLINE uint32_t source(const Ins *i, unsigned k) { return i->count ? i->list[k] : i->b; }

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
