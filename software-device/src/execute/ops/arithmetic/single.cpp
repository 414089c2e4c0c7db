// Single-precision arithmetic, exact as IEEE 754 and PTX have it.
#include "execute/ops/arithmetic/single.h"

#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

template <class F, bool ftz, bool sat>
const Ins *unary(Warp &w, const Ins *i) {
  return map1<float, float>(w, i,
                            [](float a) { return finish<ftz, sat>(F::of(maybe_flush<ftz>(a))); });
}
template <class F, bool ftz, bool sat>
const Ins *binary(Warp &w, const Ins *i) {
  return map2<float, float, float>(w, i, [](float a, float b) {
    return finish<ftz, sat>(F::of(maybe_flush<ftz>(a), maybe_flush<ftz>(b)));
  });
}
template <bool ftz, bool sat>
const Ins *multiply_add(Warp &w, const Ins *i) {
  return map3<float, float, float, float>(w, i, [](float a, float b, float c) {
    return finish<ftz, sat>(fused(maybe_flush<ftz>(a), maybe_flush<ftz>(b), maybe_flush<ftz>(c)));
  });
}

// The same in another rounding; ins->mode says which.
template <Handler inner>
__attribute__((noinline)) const Ins *directed(Warp &w, const Ins *i) {
  RoundingScope scope(static_cast<Round>(i->mode));
  return inner(w, i);
}

template <bool ftz, bool sat>
const Ins *multiply_add_directed(Warp &w, const Ins *i) {
  RoundingScope scope(static_cast<Round>(i->mode));
  float *d = slot<float>(w, i->d);
  const float *a = slot<float>(w, i->a), *b = slot<float>(w, i->b), *c = slot<float>(w, i->c);
  running(w.mask, [&](unsigned l) {
    d[l] = finish<ftz, sat>(
        fused_directed(maybe_flush<ftz>(a[l]), maybe_flush<ftz>(b[l]), maybe_flush<ftz>(c[l])));
  });
  return i + 1;
}

// NaN loses against a number unless asked for; -0 is less than +0.
template <bool max, bool ftz, bool nan>
SOFTDEV_INLINE float extreme(float a, float b) {
  a = maybe_flush<ftz>(a);
  b = maybe_flush<ftz>(b);
  uint32_t x = bit_cast<uint32_t>(a), y = bit_cast<uint32_t>(b);
  float equal = bit_cast<float>(max ? x & y : x | y);
  float r = a < b ? (max ? b : a) : a > b ? (max ? a : b) : equal;
  if (nan) return a != a || b != b ? bit_cast<float>(uint32_t{0x7fffffff}) : r;
  r = a != a ? b : b != b ? a : r;
  return canonical(r);
}
// Of the magnitudes; the sign is that of a * b.
template <bool max, bool ftz, bool nan>
const Ins *extreme_xorsign(Warp &w, const Ins *i) {
  return map2<float, float, float>(w, i, [](float a, float b) {
    uint32_t x = bit_cast<uint32_t>(a), y = bit_cast<uint32_t>(b);
    float r =
        extreme<max, ftz, nan>(bit_cast<float>(x & 0x7fffffffu), bit_cast<float>(y & 0x7fffffffu));
    return r != r ? r : bit_cast<float>(bit_cast<uint32_t>(r) | ((x ^ y) & 0x80000000u));
  });
}
template <bool max, bool ftz, bool nan>
const Ins *extreme_of(Warp &w, const Ins *i) {
  return map2<float, float, float>(w, i,
                                   [](float a, float b) { return extreme<max, ftz, nan>(a, b); });
}

template <bool ftz>
const Ins *negate(Warp &w, const Ins *i) {
  return map1<uint32_t, uint32_t>(w, i,
                                  [](uint32_t a) { return (ftz ? flushed(a) : a) ^ 0x80000000u; });
}
template <bool ftz>
const Ins *absolute(Warp &w, const Ins *i) {
  return map1<uint32_t, uint32_t>(w, i,
                                  [](uint32_t a) { return (ftz ? flushed(a) : a) & 0x7fffffffu; });
}
// copysign d, a, b: the sign of a, the magnitude of b.
const Ins *copy_sign(Warp &w, const Ins *i) {
  return map2<uint32_t, uint32_t, uint32_t>(
      w, i, [](uint32_t a, uint32_t b) { return (a & 0x80000000u) | (b & 0x7fffffffu); });
}

// div.approx: a times the reciprocal of b; huge b gives 0.
template <bool ftz>
const Ins *divide_approx(Warp &w, const Ins *i) {
  return map2<float, float, float>(w, i, [](float a, float b) {
    a = maybe_flush<ftz>(a);
    b = maybe_flush<ftz>(b);
    float magnitude = bit_cast<float>(bit_cast<uint32_t>(b) & 0x7fffffffu);
    bool huge = magnitude > 0x1p126f && magnitude <= 0x1.fffffep127f;
    float r = a / b;
    float zero = bit_cast<float>((bit_cast<uint32_t>(a) ^ bit_cast<uint32_t>(b)) & 0x80000000u);
    bool infinite = (bit_cast<uint32_t>(a) & 0x7fffffffu) == 0x7f800000u;
    float special = infinite || a != a ? bit_cast<float>(uint32_t{0x7fffffff}) : zero;
    return finish<ftz, false>(huge ? special : r);
  });
}

template <class F>
Handler pick_binary(const Ir &ir) {
  bool away = is_directed(ir.round);
  if (ir.ftz)
    return ir.sat ? (away ? directed<binary<F, true, true>> : straight<binary<F, true, true>>)
                  : (away ? directed<binary<F, true, false>> : straight<binary<F, true, false>>);
  return ir.sat ? (away ? directed<binary<F, false, true>> : straight<binary<F, false, true>>)
                : (away ? directed<binary<F, false, false>> : straight<binary<F, false, false>>);
}
template <class F>
Handler pick_unary(const Ir &ir) {
  bool away = is_directed(ir.round);
  if (ir.ftz) return away ? directed<unary<F, true, false>> : unary<F, true, false>;
  return away ? directed<unary<F, false, false>> : unary<F, false, false>;
}
template <bool ftz, bool sat>
Handler pick_fma(const Ir &ir) {
  if (!is_directed(ir.round)) return straight<multiply_add<ftz, sat>>;
  return kHasFma ? directed<multiply_add<ftz, sat>> : multiply_add_directed<ftz, sat>;
}
template <bool max>
Handler pick_extreme(const Ir &ir) {
  if (ir.xorsign) {
    if (ir.ftz)
      return ir.nan ? extreme_xorsign<max, true, true> : extreme_xorsign<max, true, false>;
    return ir.nan ? extreme_xorsign<max, false, true> : extreme_xorsign<max, false, false>;
  }
  if (ir.ftz)
    return ir.nan ? straight<extreme_of<max, true, true>> : straight<extreme_of<max, true, false>>;
  return ir.nan ? straight<extreme_of<max, false, true>> : straight<extreme_of<max, false, false>>;
}

}  // namespace

Handler select_single(const Ir &ir) {
  if (ir.type != Type::F32 || ir.relu) return nullptr;
  bool plain = !ir.nan && !ir.approx;
  switch (ir.op) {
    case Op::Add:
      return plain ? pick_binary<Sum>(ir) : nullptr;
    case Op::Sub:
      return plain ? pick_binary<Difference>(ir) : nullptr;
    case Op::Mul:
      return plain ? pick_binary<Product>(ir) : nullptr;
    case Op::Fma:
      if (ir.ftz) return ir.sat ? pick_fma<true, true>(ir) : pick_fma<true, false>(ir);
      return ir.sat ? pick_fma<false, true>(ir) : pick_fma<false, false>(ir);
    case Op::Div:
      if (!ir.approx) return pick_binary<Quotient>(ir);
      // .full has no special case for huge divisors
      if (ir.mode == 1) return pick_binary<Quotient>(ir);
      return ir.ftz ? divide_approx<true> : divide_approx<false>;
    case Op::Rcp:
      return ir.approx ? nullptr : pick_unary<Reciprocal>(ir);
    case Op::Sqrt:
      return ir.approx ? nullptr : pick_unary<Root>(ir);
    case Op::Min:
      return ir.sat ? nullptr : pick_extreme<false>(ir);
    case Op::Max:
      return ir.sat ? nullptr : pick_extreme<true>(ir);
    case Op::Neg:
      return ir.ftz ? straight<negate<true>> : straight<negate<false>>;
    case Op::Abs:
      return ir.ftz ? absolute<true> : absolute<false>;
    case Op::Copysign:
      return ir.ftz ? nullptr : copy_sign;
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
