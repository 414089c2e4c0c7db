// Single-precision functions that PTX calls approximate. All are computed in double precision and
// rounded, well within the errors that the ISA allows.
#include "execute/lanes.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

SOFTDEV_INLINE double exp2_of(double x) {
  // x = n + f with f in [-1/2, 1/2]; 2^f by its Taylor series.
  x = x > 1100.0 ? 1100.0 : x < -1100.0 ? -1100.0 : x;
  double shifted = x + 0x1.8p52;
  double n = shifted - 0x1.8p52;
  double f = (x - n) * 0.693147180559945309417;
  double p = 1.0 / 362880;
  p = p * f + 1.0 / 40320;
  p = p * f + 1.0 / 5040;
  p = p * f + 1.0 / 720;
  p = p * f + 1.0 / 120;
  p = p * f + 1.0 / 24;
  p = p * f + 1.0 / 6;
  p = p * f + 0.5;
  p = p * f + 1.0;
  p = p * f + 1.0;
  // n fits the exponent of a double after a clamp; float overflows long before.
  uint64_t exponent = (bit_cast<uint64_t>(shifted) + 1023) & 0xfff;
  bool tiny = n<-1000.0, large = n> 1000.0;
  double scale = bit_cast<double>(exponent << 52);
  return tiny ? 0.0 : large ? __builtin_inf() : p * scale;
}

struct Exp2 {
  static SOFTDEV_INLINE float of(float x) {
    return static_cast<float>(x != x ? static_cast<double>(x) : exp2_of(x));
  }
};

SOFTDEV_INLINE double log2_of(double x) {
  // x = 2^e * m with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m-1)/(m+1))
  uint64_t bits = bit_cast<uint64_t>(x);
  uint64_t adjusted = bits - 0x3fe6a09e667f3bcdu;
  int64_t e = static_cast<int64_t>(adjusted) >> 52;
  double m = bit_cast<double>(bits - (static_cast<uint64_t>(e) << 52));
  double s = (m - 1.0) / (m + 1.0), z = s * s;
  double p = 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  p = p * z + 1.0;
  return static_cast<double>(static_cast<int32_t>(e)) + 2.0 * s * p * 1.44269504088896340736;
}

struct Log2 {
  static SOFTDEV_INLINE float of(float x) {
    double r = log2_of(x > 0 ? static_cast<double>(x) : 1.0);
    r = x == __builtin_inff() ? __builtin_inf() : r;
    r = x == 0 ? -__builtin_inf() : r;
    r = x < 0 || x != x ? __builtin_nan("") : r;
    return static_cast<float>(r);
  }
};

// Reduction modulo pi/2 in two parts is good to 2^-30 for |x| < 2^20; beyond, the library.
template <bool cosine>
SOFTDEV_INLINE double wave(double x) {
  double scaled = x * 0.636619772367581343076 + 0x1.8p52;
  double n = scaled - 0x1.8p52;
  uint64_t quadrant = bit_cast<uint64_t>(scaled) + (cosine ? 1 : 0);
  double f = (x - n * 1.57079632679489655800) - n * 6.12323399573676603587e-17;
  double z = f * f;
  double s = -1.0 / 39916800;
  s = s * z + 1.0 / 362880;
  s = s * z - 1.0 / 5040;
  s = s * z + 1.0 / 120;
  s = s * z - 1.0 / 6;
  s = (s * z) * f + f;
  double c = -1.0 / 3628800;
  c = c * z + 1.0 / 40320;
  c = c * z - 1.0 / 720;
  c = c * z + 1.0 / 24;
  c = c * z - 0.5;
  c = c * z + 1.0;
  double r = (quadrant & 1) ? c : s;
  return (quadrant & 2) ? -r : r;
}
template <bool cosine>
struct Wave {
  static SOFTDEV_INLINE float of(float x) {
    float magnitude = __builtin_fabsf(x);
    if (!(magnitude < 0x1p20f))
      return magnitude < __builtin_inff()
                 ? static_cast<float>(cosine ? __builtin_cos(static_cast<double>(x))
                                             : __builtin_sin(static_cast<double>(x)))
                 : __builtin_nanf("");
    if (!cosine && x == 0) return x;
    return static_cast<float>(wave<cosine>(x));
  }
};

struct Reciprocal {
  static SOFTDEV_INLINE float of(float x) { return 1.0f / x; }
};
struct Root {
  static SOFTDEV_INLINE float of(float x) { return __builtin_sqrtf(x); }
};
struct ReciprocalRoot {
  static SOFTDEV_INLINE float of(float x) {
    return static_cast<float>(1.0 / __builtin_sqrt(static_cast<double>(x)));
  }
};
struct HyperbolicTangent {
  static SOFTDEV_INLINE float of(float x) {
    // 1 - 2 / (e^2x + 1); near 0 the difference would cancel.
    double a = __builtin_fabs(static_cast<double>(x));
    double e = exp2_of((a > 20.0 ? 20.0 : a) * 2.88539008177792681472);
    double r = 1.0 - 2.0 / (e + 1.0);
    double z = a * a;
    double series = a * (1.0 - z * (1.0 / 3 - z * (2.0 / 15 - z * (17.0 / 315))));
    r = a < 0.03 ? series : r;
    return static_cast<float>(x != x ? static_cast<double>(x) : __builtin_copysign(r, x));
  }
};

template <class F, bool ftz>
const Ins *unary(Warp &w, const Ins *i) {
  return map1<float, float>(
      w, i, [](float a) { return canonical(maybe_flush<ftz>(F::of(maybe_flush<ftz>(a)))); });
}
template <class F>
Handler pick(const Ir &ir) {
  return ir.ftz ? unary<F, true> : unary<F, false>;
}

}  // namespace

Handler select_approximate(const Ir &ir) {
  if (ir.type != Type::F32 || !ir.approx || ir.sat || ir.round != Round::None) return nullptr;
  switch (ir.op) {
    case Op::Ex2:
      return pick<Exp2>(ir);
    case Op::Lg2:
      return pick<Log2>(ir);
    case Op::Sin:
      return pick<Wave<false>>(ir);
    case Op::Cos:
      return pick<Wave<true>>(ir);
    case Op::Rcp:
      return pick<Reciprocal>(ir);
    case Op::Sqrt:
      return pick<Root>(ir);
    case Op::Rsqrt:
      return pick<ReciprocalRoot>(ir);
    case Op::Tanh:
      return pick<HyperbolicTangent>(ir);
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
