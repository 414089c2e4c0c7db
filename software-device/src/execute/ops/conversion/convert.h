// What the conversions of all types share.
#pragma once

#include <limits>
#include <type_traits>

#include "execute/lanes.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// 8-bit integers lie in 16-bit slots.
template <class T>
using slot_of = std::conditional_t<sizeof(T) == 1,
                                   std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>, T>;

// Float to integer: rounded, then saturated; NaN gives 0.

template <class F>
SOFTDEV_INLINE F rounded(F x, Round round) {
  // The builtins become single instructions where there are any.
  if constexpr (sizeof(F) == 4) {
    switch (round) {
      case Round::IntZero:
      case Round::Zero:
        return __builtin_truncf(x);
      case Round::IntDown:
      case Round::Down:
        return __builtin_floorf(x);
      case Round::IntUp:
      case Round::Up:
        return __builtin_ceilf(x);
      default:
        return __builtin_rintf(x);
    }
  } else {
    switch (round) {
      case Round::IntZero:
      case Round::Zero:
        return __builtin_trunc(x);
      case Round::IntDown:
      case Round::Down:
        return __builtin_floor(x);
      case Round::IntUp:
      case Round::Up:
        return __builtin_ceil(x);
      default:
        return __builtin_rint(x);
    }
  }
}

template <class D, class F>
SOFTDEV_INLINE D to_integer(F x) {
  using L = std::numeric_limits<D>;
  // Both bounds are powers of two, or one below: exact in F as below.
  constexpr F kAbove = static_cast<F>(L::max() / 2 + 1) * 2;
  constexpr F kLeast = static_cast<F>(L::min());
  // NaN becomes 0; from f64 or to 64 bits, the highest bit alone.
  if (!(x < kAbove)) {
    if (x != x) {
      constexpr bool kWide = sizeof(F) == 8 || sizeof(D) == 8;
      return kWide ? static_cast<D>(uint64_t{1} << (sizeof(D) * 8 - 1)) : D{0};
    }
    return L::max();
  }
  if (x < kLeast) return L::min();
  return static_cast<D>(x);
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
