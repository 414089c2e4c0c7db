// Arithmetic on f16, bf16, and pairs of them.
#include "execute/ops/arithmetic/half.h"

#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

struct Options {
  bool ftz, sat, relu, nan;
};

template <class F>
SOFTDEV_INLINE uint16_t flush16(uint16_t h, bool ftz) {
  return ftz && !(h & F::kInfinity) ? h & 0x8000 : h;
}
template <class F, Options o>
SOFTDEV_INLINE uint16_t finish(uint16_t h) {
  h = flush16<F>(h, o.ftz);
  if (o.sat) {
    float value = widen<F>(h);
    constexpr uint16_t kOne = F::kBias << F::kMantissa;
    return value > 0 ? (value < 1 ? h : kOne) : uint16_t{0};
  }
  if (o.relu) {
    bool is_nan = (h & 0x7fff) > F::kInfinity;
    return is_nan ? F::kNan : (h & 0x8000) ? uint16_t{0} : h;
  }
  return h;
}

template <class F>
uint16_t multiply_add(uint16_t a, uint16_t b, uint16_t c) {
  return narrow<F>(fused_odd(widen<F>(a), widen<F>(b), widen<F>(c)), Round::NearestEven);
}

// A slot of 16 bits holds one value, one of 32 bits a pair.
template <class S, class G>
SOFTDEV_INLINE S parts(G g) {
  if constexpr (sizeof(S) == 2)
    return g(0u);
  else
    return static_cast<S>(uint32_t{g(0u)} | uint32_t{g(16u)} << 16);
}

template <class S, class F, class Operation, Options o>
const Ins *binary(Warp &w, const Ins *i) {
  S *d = slot<S>(w, i->d);
  const S *a = slot<S>(w, i->a), *b = slot<S>(w, i->b);
  running(w.mask, [&](unsigned l) {
    d[l] = parts<S>([&](unsigned shift) {
      auto x = flush16<F>(static_cast<uint16_t>(a[l] >> shift), o.ftz);
      auto y = flush16<F>(static_cast<uint16_t>(b[l] >> shift), o.ftz);
      return finish<F, o>(Operation::template of<F>(x, y));
    });
  });
  return i + 1;
}
template <class S, class F, Options o>
const Ins *fma(Warp &w, const Ins *i) {
  S *d = slot<S>(w, i->d);
  const S *a = slot<S>(w, i->a), *b = slot<S>(w, i->b), *c = slot<S>(w, i->c);
  running(w.mask, [&](unsigned l) {
    d[l] = parts<S>([&](unsigned shift) {
      auto x = flush16<F>(static_cast<uint16_t>(a[l] >> shift), o.ftz);
      auto y = flush16<F>(static_cast<uint16_t>(b[l] >> shift), o.ftz);
      auto z = flush16<F>(static_cast<uint16_t>(c[l] >> shift), o.ftz);
      return finish<F, o>(multiply_add<F>(x, y, z));
    });
  });
  return i + 1;
}
template <class S, class F, bool ftz, bool absolute>
const Ins *sign(Warp &w, const Ins *i) {
  return map1<S, S>(w, i, [](S a) {
    return parts<S>([&](unsigned shift) {
      auto x = flush16<F>(static_cast<uint16_t>(a >> shift), ftz);
      return static_cast<uint16_t>(absolute ? x & 0x7fff : x ^ 0x8000);
    });
  });
}

template <class F, bool tangent>
uint16_t function(uint16_t h) {
  double x = widen<F>(h);
  return nearest<F>(static_cast<float>(tangent ? __builtin_tanh(x) : __builtin_exp2(x)));
}
template <class S, class F, bool tangent, bool ftz>
const Ins *approximate(Warp &w, const Ins *i) {
  S *d = slot<S>(w, i->d);
  const S *a = slot<S>(w, i->a);
  running(w.mask, [&](unsigned l) {
    d[l] = parts<S>([&](unsigned shift) {
      auto x = flush16<F>(static_cast<uint16_t>(a[l] >> shift), ftz);
      return flush16<F>(function<F, tangent>(x), ftz);
    });
  });
  return i + 1;
}

template <class S, class F, class Operation>
Handler pick_binary(const Ir &ir) {
  if (ir.relu || ir.nan) return nullptr;
  if (ir.ftz)
    return ir.sat ? binary<S, F, Operation, Options{true, true, false, false}>
                  : binary<S, F, Operation, Options{true, false, false, false}>;
  return ir.sat ? binary<S, F, Operation, Options{false, true, false, false}>
                : binary<S, F, Operation, Options{false, false, false, false}>;
}
template <class S, class F, bool max>
Handler pick_extreme(const Ir &ir) {
  if (ir.relu || ir.sat) return nullptr;
  if (ir.xorsign) {
    constexpr Options kFlush{true, false, false, false}, kKeep{false, false, false, false};
    if (ir.ftz)
      return ir.nan ? binary<S, F, Extreme<max, true, true>, kFlush>
                    : binary<S, F, Extreme<max, false, true>, kFlush>;
    return ir.nan ? binary<S, F, Extreme<max, true, true>, kKeep>
                  : binary<S, F, Extreme<max, false, true>, kKeep>;
  }
  if (ir.ftz)
    return ir.nan ? binary<S, F, Extreme<max, true>, Options{true, false, false, false}>
                  : binary<S, F, Extreme<max, false>, Options{true, false, false, false}>;
  return ir.nan ? binary<S, F, Extreme<max, true>, Options{false, false, false, false}>
                : binary<S, F, Extreme<max, false>, Options{false, false, false, false}>;
}
template <class S, class F>
Handler pick_fma(const Ir &ir) {
  if (ir.sat && ir.relu) return nullptr;
  if (ir.ftz)
    return ir.sat    ? fma<S, F, Options{true, true, false, false}>
           : ir.relu ? fma<S, F, Options{true, false, true, false}>
                     : fma<S, F, Options{true, false, false, false}>;
  return ir.sat    ? fma<S, F, Options{false, true, false, false}>
         : ir.relu ? fma<S, F, Options{false, false, true, false}>
                   : fma<S, F, Options{false, false, false, false}>;
}

template <class S, class F>
Handler pick(const Ir &ir) {
  constexpr bool kBrain = F::kMantissa == 7;
  if (kBrain && (ir.ftz || ir.sat) && ir.op != Op::Ex2) return nullptr;
  switch (ir.op) {
    case Op::Add:
      return pick_binary<S, F, Add>(ir);
    case Op::Sub:
      return pick_binary<S, F, Sub>(ir);
    case Op::Mul:
      return pick_binary<S, F, Mul>(ir);
    case Op::Min:
      return pick_extreme<S, F, false>(ir);
    case Op::Max:
      return pick_extreme<S, F, true>(ir);
    case Op::Fma:
      return pick_fma<S, F>(ir);
    case Op::Neg:
      return ir.ftz ? sign<S, F, true, false> : sign<S, F, false, false>;
    case Op::Abs:
      return ir.ftz ? sign<S, F, true, true> : sign<S, F, false, true>;
    case Op::Tanh:
      return ir.approx ? approximate<S, F, true, false> : nullptr;
    case Op::Ex2:
      if (!ir.approx) return nullptr;
      return ir.ftz ? approximate<S, F, false, true> : approximate<S, F, false, false>;
    default:
      return nullptr;
  }
}

}  // namespace

Handler select_half(const Ir &ir) {
  if (ir.round != Round::None && ir.round != Round::NearestEven) return nullptr;
  switch (ir.type) {
    case Type::F16:
      return pick<uint16_t, F16Format>(ir);
    case Type::F16x2:
      return pick<uint32_t, F16Format>(ir);
    case Type::BF16:
      return pick<uint16_t, BF16Format>(ir);
    case Type::BF16x2:
      return pick<uint32_t, BF16Format>(ir);
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
