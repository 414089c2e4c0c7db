// Floating-point references of the tests.
#pragma once

#include <cfenv>
#include <cmath>
#include <cstdint>
#include <string>

#include "harness.h"

namespace harness {

struct Rounding {
  const char *name;
  int mode;
};
inline constexpr Rounding kRoundings[] = {
    {"rn", FE_TONEAREST}, {"rz", FE_TOWARDZERO}, {"rm", FE_DOWNWARD}, {"rp", FE_UPWARD}};

// f() under a rounding mode of the host. volatile in f keeps the compiler from moving it.
template <class F>
auto under(int mode, F f) {
  int before = fegetround();
  fesetround(mode);
  auto result = f();
  fesetround(before);
  return result;
}

class SmallFormat;
// A __float128 rounded to the format, to nearest.
uint64_t rounded(const SmallFormat &format, __float128 exact);

inline float flushed(float x) {
  return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0f, x) : x;
}
inline float clamped(float x) { return std::isnan(x) || x <= 0 ? 0.0f : x > 1 ? 1.0f : x; }

// A 16-bit format by all of its values: what is nearest is searched, not computed.
class SmallFormat {
 public:
  SmallFormat(int exponent_bits, int mantissa_bits);
  double value(uint64_t bits) const;  // NaN and infinities too
  // The value `x` (times an exact scale already applied) rounded.
  uint64_t round(long double x, int mode) const;
  uint64_t smallest_normal() const { return uint64_t{1} << mantissa_bits_; }
  static const SmallFormat &f16();
  static const SmallFormat &bf16();

 private:
  int mantissa_bits_, infinity_;
};

}  // namespace harness
