// Reductions of rows of elements into memory, as bulk copies make them.
#pragma once

#include <type_traits>

#include "execute/lanes.h"
#include "execute/ops/arithmetic/half.h"
#include "execute/ops/memory/atomic.h"

namespace softdev::SOFTDEV_ISA {
namespace {

template <class Format>
struct Half {
  uint16_t bits;
};

template <class T>
SOFTDEV_INLINE T combine(AtomicOp op, T old, T b) {
  if constexpr (std::is_integral_v<T>)
    return apply(op, old, b, b);
  else if constexpr (std::is_same_v<T, float>)  // as atom in global memory
    return canonical(flush(flush(old) + flush(b)));
  else
    return canonical(old + b);
}
template <class Format>
SOFTDEV_INLINE Half<Format> combine(AtomicOp op, Half<Format> old, Half<Format> b) {
  float x = widen<Format>(old.bits), y = widen<Format>(b.bits);
  if (op == AtomicOp::Add) return {nearest<Format>(x + y)};
  // A number is preferred to a NaN, and -0 is less than 0.
  if (x != x && y != y) return {Format::kNan};
  if (x != x) return b;
  if (y != y) return old;
  bool first =
      x == y ? ((old.bits >> 15) != 0) == (op == AtomicOp::Min) : (x < y) == (op == AtomicOp::Min);
  return first ? old : b;
}

// Each element on its own is atomic; the whole is not.
template <class T>
void reduce_into(AtomicOp op, uint64_t to, uint64_t from, uint32_t bytes) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t,
                                  std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>;
  auto *target = reinterpret_cast<Bits *>(to);
  for (uint32_t at = 0; at < bytes / sizeof(T); ++at, ++target) {
    T value;
    std::memcpy(&value, reinterpret_cast<const uint8_t *>(from) + at * sizeof(T), sizeof(T));
    Bits old = __atomic_load_n(target, __ATOMIC_RELAXED), next;
    do next = bit_cast<Bits>(combine(op, bit_cast<T>(old), value));
    while (
        !__atomic_compare_exchange_n(target, &old, next, true, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));
  }
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
