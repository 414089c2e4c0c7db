// cvt between integers, f32 and f64, in every direction and rounding.
#include "execute/ops/conversion/convert.h"

#include "execute/ops/families.h"
#include "execute/rounding.h"

namespace softdev::SOFTDEV_ISA {
namespace {

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

// ---- float to integer

template <class D, class F, Round round, bool ftz>
const Ins *float_to_integer(Warp &w, const Ins *i) {
  return map1<slot_of<D>, F>(w, i, [](F a) {
    if constexpr (sizeof(F) == 4) a = maybe_flush<ftz>(a);
    return static_cast<slot_of<D>>(to_integer<D, F>(rounded(a, round)));
  });
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
template <bool ftz, bool sat>
const Ins *single_to_double(Warp &w, const Ins *i) {
  return map1<double, float>(w, i, [](float a) {
    double r = maybe_flush<ftz>(a);
    return sat ? (r > 0 ? (r < 1 ? r : 1.0) : 0.0) : r;
  });
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
  // Saturated, all are 0 or 1; and none is subnormal, so that .ftz says nothing.
  if (ir.sat) return integer_to_float<F, S, true>;
  return is_directed(ir.round) ? integer_to_float_directed<F, S> : integer_to_float<F, S, false>;
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
    default:
      return float_from_integer<float>(ir);
  }
}
Handler to_double(const Ir &ir) {
  switch (ir.type2) {
    case Type::F64:
      return pick_integral<double>(ir);
    case Type::F32:
      if (ir.ftz) return ir.sat ? single_to_double<true, true> : single_to_double<true, false>;
      return ir.sat ? single_to_double<false, true> : single_to_double<false, false>;
    default:
      return ir.ftz ? nullptr : float_from_integer<double>(ir);
  }
}
}  // namespace

Handler select_convert(const Ir &ir) {
  if (ir.op != Op::Convert) return nullptr;
  if (ir.relu) return nullptr;
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
    default:
      return nullptr;
  }
}

}  // namespace softdev::SOFTDEV_ISA
