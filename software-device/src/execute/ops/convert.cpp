// cvt: integers, f16, bf16, f32, f64, in every direction and rounding.
#include <limits>
#include <type_traits>

#include "execute/ops/families.h"
#include "execute/ops/half.h"
#include "execute/rounding.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// 8-bit integers lie in 16-bit slots.
template <class T>
using slot_of = std::conditional_t<sizeof(T) == 1,
                                   std::conditional_t<std::is_signed_v<T>, int16_t, uint16_t>, T>;

// ---- integer to integer

template <class D, class S>
const Ins *integer(Warp &w, const Ins *i) {
  return map1<slot_of<D>, slot_of<S>>(w, i, [](slot_of<S> a) {
    return static_cast<slot_of<D>>(static_cast<D>(static_cast<S>(a)));
  });
}
template <class D, class S>
const Ins *integer_sat(Warp &w, const Ins *i) {
  return map1<slot_of<D>, slot_of<S>>(w, i, [](slot_of<S> in) {
    using L = std::numeric_limits<D>;
    S a = static_cast<S>(in);
    D r = static_cast<D>(a);
    if constexpr (std::is_signed_v<S>) {
      if (a < 0) {
        if constexpr (std::is_signed_v<D>)
          r = sizeof(D) < sizeof(S) && a < static_cast<S>(L::min()) ? L::min() : static_cast<D>(a);
        else
          r = 0;
        return static_cast<slot_of<D>>(r);
      }
    }
    if (static_cast<uint64_t>(a) > static_cast<uint64_t>(L::max())) r = L::max();
    return static_cast<slot_of<D>>(r);
  });
}

// ---- float to integer: rounded, then saturated; NaN gives 0

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
  // PTX gives 0 for NaN, but 0x8000000000000000 for one that becomes 64 bits from f64.
  if (!(x < kAbove)) {
    if (x != x) return sizeof(F) == 8 && sizeof(D) == 8 ? static_cast<D>(uint64_t{1} << 63) : D{0};
    return L::max();
  }
  if (x < kLeast) return L::min();
  return static_cast<D>(x);
}

template <class D, class F, Round round, bool ftz>
const Ins *float_to_integer(Warp &w, const Ins *i) {
  return map1<slot_of<D>, F>(w, i, [](F a) {
    if constexpr (sizeof(F) == 4) a = maybe_flush<ftz>(a);
    return static_cast<slot_of<D>>(to_integer<D, F>(rounded(a, round)));
  });
}
template <class D, class Format>
const Ins *half_to_integer(Warp &w, const Ins *i) {
  const uint16_t *a = slot<uint16_t>(w, i->a);
  slot_of<D> *d = slot<slot_of<D>>(w, i->d);
  auto round = static_cast<Round>(i->mode);
  running(w.mask, [&](unsigned l) {
    d[l] = static_cast<slot_of<D>>(to_integer<D, float>(rounded(widen<Format>(a[l]), round)));
  });
  return i + 1;
}

// ---- integer to float

template <class F, class S, bool sat>
const Ins *integer_to_float(Warp &w, const Ins *i) {
  return map1<F, slot_of<S>>(w, i, [](slot_of<S> a) {
    F r = static_cast<F>(static_cast<S>(a));
    return sat ? (r > 0 ? (r < 1 ? r : F{1}) : F{0}) : r;
  });
}
template <class F, class S>
__attribute__((noinline)) const Ins *integer_to_float_directed(Warp &w, const Ins *i) {
  RoundingScope scope(static_cast<Round>(i->mode));
  F *d = slot<F>(w, i->d);
  const slot_of<S> *a = slot<slot_of<S>>(w, i->a);
  running(w.mask, [&](unsigned l) {
    // Conversions of unsigned 64-bit values are sequences that round twice in odd modes: the two
    // halves are exact, and their sum is rounded once.
    if constexpr (sizeof(S) == 8) {
      uint64_t bits = static_cast<uint64_t>(a[l]);
      bool negative = std::is_signed_v<S> && (bits >> 63);
      if constexpr (sizeof(F) == 8) {
        double high = negative ? static_cast<double>(static_cast<int32_t>(bits >> 32))
                               : static_cast<double>(static_cast<uint32_t>(bits >> 32));
        volatile double upper = high * 4294967296.0;
        d[l] = upper + static_cast<double>(static_cast<uint32_t>(bits));
      } else {
        // Sticky: bits that cannot reach the result only say that they are there.
        uint64_t magnitude = negative ? uint64_t{0} - bits : bits;
        if (magnitude >> 50) magnitude = (magnitude >> 14 | ((magnitude & 0x3fff) != 0)) << 14;
        volatile double exact = static_cast<double>(static_cast<int64_t>(magnitude >> 1));
        exact = exact * 2.0 + static_cast<double>(magnitude & 1);
        volatile double value = negative ? -exact : exact;
        d[l] = static_cast<float>(value);
      }
    } else {
      d[l] = static_cast<F>(static_cast<S>(a[l]));
    }
  });
  return i + 1;
}
template <class Format, class S>
const Ins *integer_to_half(Warp &w, const Ins *i) {
  uint16_t *d = slot<uint16_t>(w, i->d);
  const slot_of<S> *a = slot<slot_of<S>>(w, i->a);
  auto round = static_cast<Round>(i->mode);
  running(w.mask, [&](unsigned l) {
    auto value = static_cast<S>(a[l]);
    double exact;
    if constexpr (sizeof(S) == 8) {
      bool negative = std::is_signed_v<S> && static_cast<int64_t>(value) < 0;
      uint64_t magnitude =
          negative ? uint64_t{0} - static_cast<uint64_t>(value) : static_cast<uint64_t>(value);
      if (magnitude >> 50) magnitude = (magnitude >> 14 | ((magnitude & 0x3fff) != 0)) << 14;
      exact = static_cast<double>(magnitude);
      if (negative) exact = -exact;
    } else {
      exact = static_cast<double>(value);
    }
    d[l] = narrow<Format>(exact, round);
  });
  return i + 1;
}

// ---- float to float

template <class F, Round round, bool ftz, bool sat>
const Ins *round_to_integral(Warp &w, const Ins *i) {
  return map1<F, F>(w, i, [](F a) {
    if constexpr (sizeof(F) == 4) a = maybe_flush<ftz>(a);
    F r = round == Round::None ? a : rounded(a, round);
    if (sat) return r > 0 ? (r < 1 ? r : F{1}) : F{0};
    return canonical(r);
  });
}
template <bool ftz>
const Ins *single_to_double(Warp &w, const Ins *i) {
  return map1<double, float>(w, i,
                             [](float a) { return static_cast<double>(maybe_flush<ftz>(a)); });
}
template <bool ftz, bool sat>
const Ins *double_to_single(Warp &w, const Ins *i) {
  return map1<float, double>(w, i, [](double a) {
    float r = maybe_flush<ftz>(static_cast<float>(a));
    return sat ? (r > 0 ? (r < 1 ? r : 1.0f) : 0.0f) : canonical(r);
  });
}
template <Handler inner>
__attribute__((noinline)) const Ins *directed(Warp &w, const Ins *i) {
  RoundingScope scope(static_cast<Round>(i->mode));
  return inner(w, i);
}

template <class Format, bool ftz>
SOFTDEV_INLINE float half_in(uint16_t h) {
  return ftz && !(h & Format::kInfinity) ? (h & 0x8000 ? -0.0f : 0.0f) : widen<Format>(h);
}
template <class Format, bool ftz, bool sat>
const Ins *half_to_single(Warp &w, const Ins *i) {
  const uint16_t *a = slot<uint16_t>(w, i->a);
  return each<float>(w, i, [=](unsigned l) {
    float r = half_in<Format, ftz>(a[l]);
    return sat ? (r > 0 ? (r < 1 ? r : 1.0f) : 0.0f) : canonical(r);
  });
}
template <class Format>
const Ins *half_to_double(Warp &w, const Ins *i) {
  const uint16_t *a = slot<uint16_t>(w, i->a);
  return each<double>(w, i, [=](unsigned l) { return static_cast<double>(widen<Format>(a[l])); });
}
template <class Format, class F>
const Ins *to_half_nearest(Warp &w, const Ins *i) {
  const F *a = slot<F>(w, i->a);
  return each<uint16_t>(w, i, [=](unsigned l) -> uint16_t {
    if constexpr (sizeof(F) == 4)
      return nearest<Format>(a[l]);
    else
      return narrow<Format>(a[l], Round::NearestEven);
  });
}
// Every rounding and option. kGuard bits: 1 ftz, 2 sat, 4 relu
template <class Format, class F, unsigned options>
const Ins *to_half(Warp &w, const Ins *i) {
  uint16_t *d = slot<uint16_t>(w, i->d);
  const F *a = slot<F>(w, i->a);
  auto round = static_cast<Round>(i->mode);
  running(w.mask, [&](unsigned l) {
    F value = a[l];
    if constexpr (sizeof(F) == 4)
      if (options & 1) value = flush(value);
    if (options & 2) value = value > 0 ? (value < 1 ? value : F{1}) : F{0};
    uint16_t h = narrow<Format>(value, round);
    if ((options & 1) && !(h & Format::kInfinity)) h &= 0x8000;
    if ((options & 4) && (h & 0x8000) && (h & 0x7fff) <= Format::kInfinity) h = 0;
    d[l] = h;
  });
  return i + 1;
}
template <class From, class To>
const Ins *half_to_half(Warp &w, const Ins *i) {
  uint16_t *d = slot<uint16_t>(w, i->d);
  const uint16_t *a = slot<uint16_t>(w, i->a);
  auto round = static_cast<Round>(i->mode);
  running(w.mask, [&](unsigned l) {
    float value = widen<From>(a[l]);
    if constexpr (std::is_same_v<From, To>) value = rounded(value, round);
    d[l] = narrow<To>(value, Round::NearestEven);
  });
  return i + 1;
}
// cvt.rn.f16x2.f32 d, a, b: a is the upper half
template <class Format, bool relu>
const Ins *pack(Warp &w, const Ins *i) {
  const float *a = slot<float>(w, i->a), *b = slot<float>(w, i->b);
  auto round = static_cast<Round>(i->mode);
  uint32_t *d = slot<uint32_t>(w, i->d);
  running(w.mask, [&](unsigned l) {
    auto one = [&](float value) {
      uint16_t h =
          round == Round::NearestEven ? nearest<Format>(value) : narrow<Format>(value, round);
      if (relu && (h & 0x8000) && (h & 0x7fff) <= Format::kInfinity) h = 0;
      return h;
    };
    d[l] = uint32_t{one(a[l])} << 16 | one(b[l]);
  });
  return i + 1;
}

// ---- selection

template <class D, class S>
Handler pick_integers(const Ir &ir) {
  return ir.sat ? integer_sat<D, S> : integer<D, S>;
}
template <class D>
Handler from_integer(const Ir &ir) {
  switch (ir.type2) {
    case Type::U8:
      return pick_integers<D, uint8_t>(ir);
    case Type::S8:
      return pick_integers<D, int8_t>(ir);
    case Type::U16:
      return pick_integers<D, uint16_t>(ir);
    case Type::S16:
      return pick_integers<D, int16_t>(ir);
    case Type::U32:
      return pick_integers<D, uint32_t>(ir);
    case Type::S32:
      return pick_integers<D, int32_t>(ir);
    case Type::U64:
      return pick_integers<D, uint64_t>(ir);
    case Type::S64:
      return pick_integers<D, int64_t>(ir);
    default:
      return nullptr;
  }
}
template <class D, class F, Round round>
Handler by_flush(const Ir &ir) {
  if constexpr (sizeof(F) == 8)
    return ir.ftz ? nullptr : float_to_integer<D, F, round, false>;
  else
    return ir.ftz ? float_to_integer<D, F, round, true> : float_to_integer<D, F, round, false>;
}
template <class D, class F>
Handler from_float(const Ir &ir) {
  switch (ir.round) {
    case Round::IntNearest:
      return by_flush<D, F, Round::IntNearest>(ir);
    case Round::IntZero:
      return by_flush<D, F, Round::IntZero>(ir);
    case Round::IntDown:
      return by_flush<D, F, Round::IntDown>(ir);
    case Round::IntUp:
      return by_flush<D, F, Round::IntUp>(ir);
    default:
      return nullptr;
  }
}
template <class D>
Handler to_integer_type(const Ir &ir) {
  switch (ir.type2) {
    case Type::F16:
      return ir.ftz ? nullptr : half_to_integer<D, F16Format>;
    case Type::BF16:
      return ir.ftz ? nullptr : half_to_integer<D, BF16Format>;
    case Type::F32:
      return from_float<D, float>(ir);
    case Type::F64:
      return from_float<D, double>(ir);
    default:
      return ir.ftz ? nullptr : from_integer<D>(ir);
  }
}
template <class F, class S>
Handler to_float_from(const Ir &ir) {
  if (is_directed(ir.round)) return ir.sat ? nullptr : integer_to_float_directed<F, S>;
  return ir.sat ? integer_to_float<F, S, true> : integer_to_float<F, S, false>;
}
template <class F>
Handler float_from_integer(const Ir &ir) {
  switch (ir.type2) {
    case Type::U8:
      return to_float_from<F, uint8_t>(ir);
    case Type::S8:
      return to_float_from<F, int8_t>(ir);
    case Type::U16:
      return to_float_from<F, uint16_t>(ir);
    case Type::S16:
      return to_float_from<F, int16_t>(ir);
    case Type::U32:
      return to_float_from<F, uint32_t>(ir);
    case Type::S32:
      return to_float_from<F, int32_t>(ir);
    case Type::U64:
      return to_float_from<F, uint64_t>(ir);
    case Type::S64:
      return to_float_from<F, int64_t>(ir);
    default:
      return nullptr;
  }
}
template <class Format>
Handler half_from_integer(const Ir &ir) {
  if (ir.sat || ir.ftz) return nullptr;
  switch (ir.type2) {
    case Type::U8:
      return integer_to_half<Format, uint8_t>;
    case Type::S8:
      return integer_to_half<Format, int8_t>;
    case Type::U16:
      return integer_to_half<Format, uint16_t>;
    case Type::S16:
      return integer_to_half<Format, int16_t>;
    case Type::U32:
      return integer_to_half<Format, uint32_t>;
    case Type::S32:
      return integer_to_half<Format, int32_t>;
    case Type::U64:
      return integer_to_half<Format, uint64_t>;
    case Type::S64:
      return integer_to_half<Format, int64_t>;
    default:
      return nullptr;
  }
}
template <class F, Round round>
Handler integral(const Ir &ir) {
  if constexpr (sizeof(F) == 8) {
    if (ir.ftz) return nullptr;
    return ir.sat ? round_to_integral<F, round, false, true>
                  : round_to_integral<F, round, false, false>;
  } else {
    if (ir.ftz)
      return ir.sat ? round_to_integral<F, round, true, true>
                    : round_to_integral<F, round, true, false>;
    return ir.sat ? round_to_integral<F, round, false, true>
                  : round_to_integral<F, round, false, false>;
  }
}
template <class F>
Handler pick_integral(const Ir &ir) {
  switch (ir.round) {
    case Round::None:
      return integral<F, Round::None>(ir);
    case Round::IntNearest:
      return integral<F, Round::IntNearest>(ir);
    case Round::IntZero:
      return integral<F, Round::IntZero>(ir);
    case Round::IntDown:
      return integral<F, Round::IntDown>(ir);
    case Round::IntUp:
      return integral<F, Round::IntUp>(ir);
    default:
      return nullptr;
  }
}
template <bool ftz, bool sat>
Handler narrow_double(const Ir &ir) {
  return is_directed(ir.round) ? directed<double_to_single<ftz, sat>> : double_to_single<ftz, sat>;
}
Handler to_single(const Ir &ir) {
  switch (ir.type2) {
    case Type::F32:
      return pick_integral<float>(ir);
    case Type::F64:
      if (ir.ftz) return ir.sat ? narrow_double<true, true>(ir) : narrow_double<true, false>(ir);
      return ir.sat ? narrow_double<false, true>(ir) : narrow_double<false, false>(ir);
    case Type::F16:
      if (ir.ftz)
        return ir.sat ? half_to_single<F16Format, true, true>
                      : half_to_single<F16Format, true, false>;
      return ir.sat ? half_to_single<F16Format, false, true>
                    : half_to_single<F16Format, false, false>;
    case Type::BF16:
      if (ir.ftz || ir.sat) return nullptr;
      return half_to_single<BF16Format, false, false>;
    default:
      return ir.ftz ? nullptr : float_from_integer<float>(ir);
  }
}
Handler to_double(const Ir &ir) {
  switch (ir.type2) {
    case Type::F64:
      return pick_integral<double>(ir);
    case Type::F32:
      if (ir.sat) return nullptr;
      return ir.ftz ? single_to_double<true> : single_to_double<false>;
    case Type::F16:
      return ir.sat || ir.ftz ? nullptr : half_to_double<F16Format>;
    case Type::BF16:
      return ir.sat || ir.ftz ? nullptr : half_to_double<BF16Format>;
    default:
      return ir.ftz ? nullptr : float_from_integer<double>(ir);
  }
}
template <class Format, class F>
Handler pick_to_half(const Ir &ir) {
  unsigned options = (ir.ftz ? 1 : 0) | (ir.sat ? 2 : 0) | (ir.relu ? 4 : 0);
  if (options == 0 && ir.round == Round::NearestEven) return to_half_nearest<Format, F>;
  if (sizeof(F) == 8 && ir.ftz) return nullptr;
  switch (options) {
    case 0:
      return to_half<Format, F, 0>;
    case 1:
      return to_half<Format, F, 1>;
    case 2:
      return to_half<Format, F, 2>;
    case 3:
      return to_half<Format, F, 3>;
    case 4:
      return to_half<Format, F, 4>;
    default:
      return nullptr;
  }
}
template <class Format, class Other>
Handler to_half_type(const Ir &ir, Type own, Type other) {
  if (ir.type2 == own || ir.type2 == other) {
    if (ir.ftz || ir.sat || ir.relu) return nullptr;
    if (ir.type2 == own) return ir.round == Round::None ? nullptr : half_to_half<Format, Format>;
    return ir.round == Round::NearestEven ? half_to_half<Other, Format> : nullptr;
  }
  if (ir.type2 == Type::F32) return pick_to_half<Format, float>(ir);
  if (ir.type2 == Type::F64) return pick_to_half<Format, double>(ir);
  return half_from_integer<Format>(ir);
}

}  // namespace

Handler select_convert(const Ir &ir) {
  if (ir.op == Op::ConvertPack) {
    if (ir.round != Round::NearestEven && ir.round != Round::Zero) return nullptr;
    if (ir.type == Type::F16x2) return ir.relu ? pack<F16Format, true> : pack<F16Format, false>;
    return ir.relu ? pack<BF16Format, true> : pack<BF16Format, false>;
  }
  if (ir.op != Op::Convert) return nullptr;
  if (ir.relu && ir.type != Type::F16 && ir.type != Type::BF16) return nullptr;
  switch (ir.type) {
    case Type::U8:
      return to_integer_type<uint8_t>(ir);
    case Type::S8:
      return to_integer_type<int8_t>(ir);
    case Type::U16:
      return to_integer_type<uint16_t>(ir);
    case Type::S16:
      return to_integer_type<int16_t>(ir);
    case Type::U32:
      return to_integer_type<uint32_t>(ir);
    case Type::S32:
      return to_integer_type<int32_t>(ir);
    case Type::U64:
      return to_integer_type<uint64_t>(ir);
    case Type::S64:
      return to_integer_type<int64_t>(ir);
    case Type::F32:
      return to_single(ir);
    case Type::F64:
      return to_double(ir);
    case Type::F16:
      return to_half_type<F16Format, BF16Format>(ir, Type::F16, Type::BF16);
    case Type::BF16:
      return to_half_type<BF16Format, F16Format>(ir, Type::BF16, Type::F16);
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
