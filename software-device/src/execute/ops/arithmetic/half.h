// 16-bit floating point: f16 and bf16 to and from single precision, every rounding.
#pragma once

#include "execute/lanes.h"

#ifdef __F16C__
#include <immintrin.h>
#endif

namespace softdev::SOFTDEV_ISA {
namespace {

struct F16Format {
  static constexpr int kMantissa = 10, kBias = 15, kMaxExponent = 31;
  static constexpr uint16_t kNan = 0x7fff, kInfinity = 0x7c00, kLargest = 0x7bff;
};
struct BF16Format {
  static constexpr int kMantissa = 7, kBias = 127, kMaxExponent = 255;
  static constexpr uint16_t kNan = 0x7fff, kInfinity = 0x7f80, kLargest = 0x7f7f;
};

// A double (exact, or rounded to odd) to 16 bits.
template <class Format>
inline uint16_t narrow(double value, Round round) {
  auto bits = bit_cast<uint64_t>(value);
  auto sign = static_cast<uint16_t>(bits >> 63 << 15);
  bits &= ~(uint64_t{1} << 63);
  if (bits > 0x7ff0000000000000u) return Format::kNan;
  bool negative = sign != 0;
  if (bits == 0x7ff0000000000000u) return sign | Format::kInfinity;
  if (bits == 0) return sign;
  int exponent = static_cast<int>(bits >> 52) - 1023;
  uint64_t mantissa = (bits & 0xfffffffffffffu) | (bits >> 52 ? uint64_t{1} << 52 : 0);
  // Bits below the last one kept.
  int drop = 52 - Format::kMantissa;
  int biased = exponent + Format::kBias;
  if (biased < 1) {
    drop += 1 - biased;
    biased = 0;
  }
  uint64_t kept, rest, half;
  if (drop > 54) {
    kept = 0;
    rest = 1;
    half = 2;  // less than half
  } else {
    kept = mantissa >> drop;
    rest = mantissa & ((uint64_t{1} << drop) - 1);
    half = uint64_t{1} << (drop - 1);
  }
  bool up = false;
  switch (round) {
    case Round::Zero:
      break;
    case Round::Down:
      up = rest && negative;
      break;
    case Round::Up:
      up = rest && !negative;
      break;
    case Round::NearestAway:
      up = rest >= half;
      break;
    default:
      up = rest > half || (rest == half && (kept & 1));
      break;
  }
  kept += up;
  // kept has its leading bit in place for normal numbers: adding the exponent carries over.
  uint64_t result = biased ? (static_cast<uint64_t>(biased - 1) << Format::kMantissa) + kept : kept;
  if (result >= static_cast<uint64_t>(Format::kInfinity)) {
    bool to_largest = round == Round::Zero || (round == Round::Down && !negative) ||
                      (round == Round::Up && negative);
    return sign | (to_largest ? Format::kLargest : Format::kInfinity);
  }
  return static_cast<uint16_t>(sign | result);
}

template <class Format>
SOFTDEV_INLINE float widen(uint16_t h);
template <>
SOFTDEV_INLINE float widen<BF16Format>(uint16_t h) {
  return bit_cast<float>(uint32_t{h} << 16);
}
template <>
SOFTDEV_INLINE float widen<F16Format>(uint16_t h) {
#ifdef __F16C__
  return _cvtsh_ss(h);
#else
  uint32_t sign = (h & 0x8000u) << 16, exponent = (h >> 10) & 31, mantissa = h & 0x3ffu;
  if (exponent == 31) return bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent) return bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
#endif
}

// To nearest, from single precision.
template <class Format>
SOFTDEV_INLINE uint16_t nearest(float value);
template <>
SOFTDEV_INLINE uint16_t nearest<BF16Format>(float value) {
  uint32_t bits = bit_cast<uint32_t>(value);
  uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1)) >> 16;
  return value != value ? 0x7fff : static_cast<uint16_t>(rounded);
}
template <>
SOFTDEV_INLINE uint16_t nearest<F16Format>(float value) {
#ifdef __F16C__
  return value != value ? 0x7fff : static_cast<uint16_t>(_cvtss_sh(value, 0));
#else
  return narrow<F16Format>(value, Round::NearestEven);
#endif
}

// a * b + c rounded once: the sum in double, its last bit made odd when something was lost, so
// that the second rounding sees on which side of a tie the exact value lies.
inline double fused_odd(double a, double b, double c) {
  double product = a * b;  // exact for 16-bit factors
  double sum = product + c;
  double part = sum - product;
  double lost = (product - (sum - part)) + (c - part);
  auto bits = bit_cast<uint64_t>(sum);
  if (lost == 0 || !__builtin_isfinite(sum) || (bits & 1)) return sum;
  bool away = (lost > 0) == (sum > 0);
  return bit_cast<double>(away ? bits + 1 : bits - 1);
}

// ---- operations on two values of a format

struct Add {
  template <class F>
  static uint16_t of(uint16_t a, uint16_t b) {
    return nearest<F>(widen<F>(a) + widen<F>(b));
  }
};
struct Sub {
  template <class F>
  static uint16_t of(uint16_t a, uint16_t b) {
    return nearest<F>(widen<F>(a) - widen<F>(b));
  }
};
struct Mul {
  template <class F>
  static uint16_t of(uint16_t a, uint16_t b) {
    return nearest<F>(widen<F>(a) * widen<F>(b));
  }
};

template <bool max, bool nan, bool xorsign = false>
struct Extreme {
  template <class F>
  static uint16_t of(uint16_t a, uint16_t b) {
    if constexpr (xorsign) {  // of the magnitudes; the sign is that of a * b
      uint16_t r = Extreme<max, nan>::template of<F>(a & 0x7fff, b & 0x7fff);
      return r > F::kInfinity ? r : static_cast<uint16_t>(r | ((a ^ b) & 0x8000));
    }
    float x = widen<F>(a), y = widen<F>(b);
    bool an = x != x, bn = y != y;
    if (nan ? an || bn : an && bn) return F::kNan;
    if (an) return b;
    if (bn) return a;
    if (x == y) return static_cast<uint16_t>(max ? a & b : a | b);
    return (x < y) != max ? a : b;
  }
};

// The sum of two bf16 in single precision can lose bits that decide a tie: double holds them.
template <>
inline uint16_t Add::of<BF16Format>(uint16_t a, uint16_t b) {
  return narrow<BF16Format>(fused_odd(1.0, widen<BF16Format>(a), widen<BF16Format>(b)),
                            Round::NearestEven);
}
template <>
inline uint16_t Sub::of<BF16Format>(uint16_t a, uint16_t b) {
  return narrow<BF16Format>(fused_odd(-1.0, widen<BF16Format>(b), widen<BF16Format>(a)),
                            Round::NearestEven);
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
