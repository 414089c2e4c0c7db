// Double-precision arithmetic.
#include "execute/lanes.h"
#include "execute/ops/families.h"
#include "execute/rounding.h"

namespace softdev::SOFTDEV_ISA {
namespace {

struct Sum {
  static SOFTDEV_INLINE double of(double a, double b) { return a + b; }
};
struct Difference {
  static SOFTDEV_INLINE double of(double a, double b) { return a - b; }
};
struct Product {
  static SOFTDEV_INLINE double of(double a, double b) { return a * b; }
};
struct Quotient {
  static SOFTDEV_INLINE double of(double a, double b) { return a / b; }
};
struct Root {
  static SOFTDEV_INLINE double of(double a) { return __builtin_sqrt(a); }
};
struct Reciprocal {
  static SOFTDEV_INLINE double of(double a) { return 1.0 / a; }
};
struct ReciprocalRoot {
  static SOFTDEV_INLINE double of(double a) { return 1.0 / __builtin_sqrt(a); }
};

template <class F>
const Ins *unary(Warp &w, const Ins *i) {
  return map1<double, double>(w, i, [](double a) { return F::of(a); });
}
template <class F>
const Ins *binary(Warp &w, const Ins *i) {
  return map2<double, double, double>(w, i, [](double a, double b) { return F::of(a, b); });
}
const Ins *multiply_add(Warp &w, const Ins *i) {
  return map3<double, double, double, double>(
      w, i, [](double a, double b, double c) { return fused(a, b, c); });
}
template <Handler inner>
__attribute__((noinline)) const Ins *directed(Warp &w, const Ins *i) {
  RoundingScope scope(static_cast<Round>(i->mode));
  return inner(w, i);
}

template <bool max>
const Ins *extreme(Warp &w, const Ins *i) {
  return map2<double, double, double>(w, i, [](double a, double b) {
    uint64_t x = bit_cast<uint64_t>(a), y = bit_cast<uint64_t>(b);
    double equal = bit_cast<double>(max ? x & y : x | y);
    double r = a < b ? (max ? b : a) : a > b ? (max ? a : b) : equal;
    r = a != a ? b : b != b ? a : r;
    return r == r ? r : bit_cast<double>(uint64_t{0x7fffffffffffffff});
  });
}
const Ins *negate(Warp &w, const Ins *i) {
  return map1<uint64_t, uint64_t>(w, i, [](uint64_t a) { return a ^ (uint64_t{1} << 63); });
}
const Ins *absolute(Warp &w, const Ins *i) {
  return map1<uint64_t, uint64_t>(w, i, [](uint64_t a) { return a & ~(uint64_t{1} << 63); });
}
const Ins *copy_sign(Warp &w, const Ins *i) {
  constexpr uint64_t kSign = uint64_t{1} << 63;
  return map2<uint64_t, uint64_t, uint64_t>(
      w, i, [](uint64_t a, uint64_t b) { return (a & kSign) | (b & ~kSign); });
}

// rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 look at and give the upper 32 bits only.
template <class F>
const Ins *coarse(Warp &w, const Ins *i) {
  return map1<double, double>(w, i, [](double a) {
    uint64_t bits = bit_cast<uint64_t>(a) & 0xffffffff00000000u;
    if (!(bits & 0x7ff0000000000000u)) bits &= 0x8000000000000000u;
    double x = bit_cast<double>(bits);
    double r = F::of(x);
    if (r != r) return bit_cast<double>(uint64_t{0x7fffffff00000000});
    bits = bit_cast<uint64_t>(r) & 0xffffffff00000000u;
    if (!(bits & 0x7ff0000000000000u)) bits &= 0x8000000000000000u;
    return bit_cast<double>(bits);
  });
}

template <Handler inner>
Handler rounded(const Ir &ir) {
  return is_directed(ir.round) ? directed<inner> : straight<inner>;
}

}  // namespace

Handler select_double(const Ir &ir) {
  if (ir.type != Type::F64 || ir.sat || ir.nan || ir.relu || ir.xorsign) return nullptr;
  if (ir.op == Op::Rcp && ir.approx) return ir.ftz ? coarse<Reciprocal> : nullptr;
  if (ir.op == Op::Rsqrt)
    return !ir.approx ? nullptr : ir.ftz ? coarse<ReciprocalRoot> : unary<ReciprocalRoot>;
  if (ir.ftz || ir.approx) return nullptr;
  switch (ir.op) {
    case Op::Add:
      return rounded<binary<Sum>>(ir);
    case Op::Sub:
      return rounded<binary<Difference>>(ir);
    case Op::Mul:
      return rounded<binary<Product>>(ir);
    case Op::Div:
      return rounded<binary<Quotient>>(ir);
    case Op::Fma:
      return rounded<multiply_add>(ir);
    case Op::Rcp:
      return rounded<unary<Reciprocal>>(ir);
    case Op::Sqrt:
      return rounded<unary<Root>>(ir);
    case Op::Min:
      return extreme<false>;
    case Op::Max:
      return extreme<true>;
    case Op::Neg:
      return negate;
    case Op::Abs:
      return absolute;
    case Op::Copysign:
      return copy_sign;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
