// What single-precision arithmetic computes, for one value and for pairs.
#pragma once

#include "execute/rounding.h"

namespace softdev::SOFTDEV_ISA {
namespace {

SOFTDEV_INLINE float saturate(float x) { return x > 0.0f ? (x < 1.0f ? x : 1.0f) : 0.0f; }

// What an operation computes before flushing, saturation and the canonical NaN.
struct Sum {
  static SOFTDEV_INLINE float of(float a, float b) { return a + b; }
};
struct Difference {
  static SOFTDEV_INLINE float of(float a, float b) { return a - b; }
};
struct Product {
  static SOFTDEV_INLINE float of(float a, float b) { return a * b; }
};
struct Quotient {
  static SOFTDEV_INLINE float of(float a, float b) { return a / b; }
};
struct Root {
  static SOFTDEV_INLINE float of(float a) { return __builtin_sqrtf(a); }
};
struct Reciprocal {
  static SOFTDEV_INLINE float of(float a) { return 1.0f / a; }
};

template <bool ftz, bool sat>
SOFTDEV_INLINE float finish(float r) {
  r = maybe_flush<ftz>(r);
  return sat ? saturate(r) : canonical(r);
}

#ifdef __FMA__
[[maybe_unused]] constexpr bool kHasFma = true;
#else
[[maybe_unused]] constexpr bool kHasFma = false;
#endif

// Without the instruction, fmaf() of the library would round to nearest in some versions: one
// rounding of the exact value instead. The product is exact in double; its sum with c is made
// exact by folding the lost part into the last bit (round to odd), and then rounded once.
inline float fused_directed(float a, float b, float c) {
  double product = static_cast<double>(a) * b;
  volatile double sum, lost;
  {
    RoundingScope nearest(Round::NearestEven);
    sum = product + c;
    double part = sum - product;
    lost = (product - (sum - part)) + (c - part);
  }
  double exact = sum;
  if (exact == 0 && lost == 0) {  // the sign of an exact zero depends on the rounding
    volatile double zero = product;
    return static_cast<float>(zero + c);
  }
  auto bits = bit_cast<uint64_t>(exact);
  if (lost != 0 && exact == exact && !(bits & 1) && __builtin_isfinite(exact)) {
    bool away = (lost > 0) == (exact > 0);
    bits = away ? bits + 1 : bits - 1;
    exact = bit_cast<double>(bits);
  }
  return static_cast<float>(exact);
}
}  // namespace
}  // namespace softdev::SOFTDEV_ISA
