// Arithmetic on pairs of single-precision values: a slot of 64-bit lanes is 64 of them.
#include "execute/ops/arithmetic/single.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

constexpr unsigned kValues = 2 * kLanes;

template <class F>
SOFTDEV_INLINE const Ins *each_value(Warp &w, const Ins *i, F f) {
  float *d = slot<float>(w, i->d);
  if (w.mask == kFullMask) {
    SOFTDEV_LANES d[l] = f(l);
    SOFTDEV_LANES d[kLanes + l] = f(kLanes + l);
    return i + 1;
  }
  alignas(64) float v[kValues];
  for (unsigned k = 0; k < kValues; ++k) v[k] = f(k);
  running(w.mask, [&](unsigned l) { std::memcpy(d + 2 * l, v + 2 * l, 2 * sizeof(float)); });
  return i + 1;
}

template <class F, bool ftz>
const Ins *binary(Warp &w, const Ins *i) {
  const float *a = slot<float>(w, i->a), *b = slot<float>(w, i->b);
  return each_value(w, i, [=](unsigned k) {
    return finish<ftz, false>(F::of(maybe_flush<ftz>(a[k]), maybe_flush<ftz>(b[k])));
  });
}
template <bool ftz, bool by_hand>
const Ins *multiply_add(Warp &w, const Ins *i) {
  const float *a = slot<float>(w, i->a), *b = slot<float>(w, i->b), *c = slot<float>(w, i->c);
  return each_value(w, i, [=](unsigned k) {
    float x = maybe_flush<ftz>(a[k]), y = maybe_flush<ftz>(b[k]), z = maybe_flush<ftz>(c[k]);
    return finish<ftz, false>(by_hand ? fused_directed(x, y, z) : fused(x, y, z));
  });
}
template <Handler inner>
__attribute__((noinline)) const Ins *directed(Warp &w, const Ins *i) {
  RoundingScope scope(static_cast<Round>(i->mode));
  return inner(w, i);
}

template <class F>
Handler pick(const Ir &ir) {
  bool away = is_directed(ir.round);
  if (ir.ftz) return away ? directed<binary<F, true>> : binary<F, true>;
  return away ? directed<binary<F, false>> : binary<F, false>;
}
template <bool ftz>
Handler pick_fma(const Ir &ir) {
  return is_directed(ir.round) ? directed<multiply_add<ftz, !kHasFma>> : multiply_add<ftz, false>;
}

}  // namespace

Handler select_pair(const Ir &ir) {
  if (ir.type != Type::F32x2 || ir.sat || ir.relu || ir.nan || ir.approx) return nullptr;
  switch (ir.op) {
    case Op::Add:
      return pick<Sum>(ir);
    case Op::Sub:
      return pick<Difference>(ir);
    case Op::Mul:
      return pick<Product>(ir);
    case Op::Fma:
      return ir.ftz ? pick_fma<true>(ir) : pick_fma<false>(ir);
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
