#include "reference.h"

namespace harness {

SmallFormat::SmallFormat(int exponent_bits, int mantissa_bits)
    : mantissa_bits_(mantissa_bits), infinity_(((1 << exponent_bits) - 1) << mantissa_bits) {}

double SmallFormat::value(uint64_t bits) const {
  int magnitude = static_cast<int>(bits & 0x7fff);
  double sign = bits & 0x8000 ? -1 : 1;
  if (magnitude > infinity_) return std::nan("");
  if (magnitude == infinity_) return sign * HUGE_VAL;
  int exponent = magnitude >> mantissa_bits_;
  double mantissa = magnitude & ((1 << mantissa_bits_) - 1);
  int bias = (1 << (14 - mantissa_bits_)) - 1;
  if (exponent == 0) return sign * std::ldexp(mantissa, 1 - bias - mantissa_bits_);
  return sign * std::ldexp(mantissa + (1 << mantissa_bits_), exponent - bias - mantissa_bits_);
}

// Values of one sign are in order of their bits: bisection finds the two neighbours.
uint64_t SmallFormat::round(long double x, int mode) const {
  if (std::isnan(x)) return 0x7fff;
  uint64_t sign = std::signbit(x) ? 0x8000 : 0;
  long double magnitude = std::fabs(x);
  uint64_t low = 0, high = static_cast<uint64_t>(infinity_);
  if (std::isinf(x)) return sign | high;
  // The value that would follow the largest one stands for infinity.
  auto at = [&](uint64_t bits) -> long double {
    if (bits < static_cast<uint64_t>(infinity_)) return value(bits);
    long double last = value(static_cast<uint64_t>(infinity_) - 1);
    return last + (last - static_cast<long double>(value(static_cast<uint64_t>(infinity_) - 2)));
  };
  while (high - low > 1) {
    uint64_t middle = (low + high) / 2;
    (at(middle) <= magnitude ? low : high) = middle;
  }
  if (magnitude >= at(high)) low = high;
  if (at(low) == magnitude || low == high) {
    if (low == static_cast<uint64_t>(infinity_) && mode != FE_TONEAREST) {
      bool toward_zero =
          mode == FE_TOWARDZERO || (mode == FE_UPWARD && sign) || (mode == FE_DOWNWARD && !sign);
      if (toward_zero) low = static_cast<uint64_t>(infinity_) - 1;
    }
    return sign | low;
  }
  bool up;
  if (mode == FE_TONEAREST) {
    long double below = magnitude - at(low), above = at(high) - magnitude;
    up = above < below || (above == below && (high & 1) == 0);
  } else {
    up = mode == FE_UPWARD ? !sign : mode == FE_DOWNWARD ? sign != 0 : false;
  }
  return sign | (up ? high : low);
}

const SmallFormat &SmallFormat::f16() {
  static const SmallFormat format(5, 10);
  return format;
}
const SmallFormat &SmallFormat::bf16() {
  static const SmallFormat format(8, 7);
  return format;
}

// Through long double, made odd where bits are lost.
uint64_t rounded(const SmallFormat &format, __float128 exact) {
  long double x = static_cast<long double>(exact);
  if (std::isfinite(x) && static_cast<__float128>(x) != exact && x != 0) {
    // Which side of x the exact value lies on decides ties only; one more neighbour tells.
    long double other = static_cast<__float128>(x) < exact ? std::nextafter(x, HUGE_VALL)
                                                           : std::nextafter(x, -HUGE_VALL);
    long double middle = x + (other - x) / 2;
    if (middle == x || middle == other) {
      uint64_t a = format.round(x, FE_TONEAREST), b = format.round(other, FE_TONEAREST);
      if (a != b) {
        // x is a tie of the format: the side of the exact value wins.
        return b;
      }
      return a;
    }
  }
  return format.round(x, FE_TONEAREST);
}

}  // namespace harness
