// cvt from and to f16 and bf16.
#include "execute/ops/arithmetic/half.h"
#include "execute/ops/conversion/convert.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

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

template <class Format, class S>
const Ins *integer_to_half(Warp &w, const Ins *i) {
  uint16_t *d = slot<uint16_t>(w, i->d);
  const slot_of<S> *a = slot<slot_of<S>>(w, i->a);
  auto round = static_cast<Round>(i->mode);
  bool sat = i->imm & kConvertSat;
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
    if (sat) exact = exact > 0 ? 1 : 0;
    d[l] = narrow<Format>(exact, round);
  });
  return i + 1;
}

// .ftz is about single precision only.
template <class Format, bool ftz, bool sat>
const Ins *half_to_single(Warp &w, const Ins *i) {
  const uint16_t *a = slot<uint16_t>(w, i->a);
  return each<float>(w, i, [=](unsigned l) {
    float r = maybe_flush<ftz>(widen<Format>(a[l]));
    return sat ? (r > 0 ? (r < 1 ? r : 1.0f) : 0.0f) : canonical(r);
  });
}
template <class Format, bool sat>
const Ins *half_to_double(Warp &w, const Ins *i) {
  const uint16_t *a = slot<uint16_t>(w, i->a);
  return each<double>(w, i, [=](unsigned l) {
    double r = widen<Format>(a[l]);
    return sat ? (r > 0 ? (r < 1 ? r : 1.0) : 0.0) : r;
  });
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
// What the options make of a result.
template <class Format>
SOFTDEV_INLINE uint16_t finished(uint16_t h, int64_t options) {
  bool is_nan = (h & 0x7fff) > Format::kInfinity;
  if ((options & kConvertRelu) && (h & 0x8000) && !is_nan) h = 0;
  if ((options & kConvertSatfinite) && (h & 0x7fff) == Format::kInfinity) h -= 1;
  return h;
}

// Every rounding and option.
template <class Format, class F>
const Ins *to_half(Warp &w, const Ins *i) {
  uint16_t *d = slot<uint16_t>(w, i->d);
  const F *a = slot<F>(w, i->a);
  auto round = static_cast<Round>(i->mode);
  int64_t options = i->imm;
  running(w.mask, [&](unsigned l) {
    F value = a[l];
    if constexpr (sizeof(F) == 4)
      if (options & kConvertFtz) value = flush(value);
    if (options & kConvertSat) value = value > 0 ? (value < 1 ? value : F{1}) : F{0};
    d[l] = finished<Format>(narrow<Format>(value, round), options);
  });
  return i + 1;
}
template <class From, class To>
const Ins *half_to_half(Warp &w, const Ins *i) {
  uint16_t *d = slot<uint16_t>(w, i->d);
  const uint16_t *a = slot<uint16_t>(w, i->a);
  auto round = static_cast<Round>(i->mode);
  bool sat = i->imm & kConvertSat;
  running(w.mask, [&](unsigned l) {
    float value = widen<From>(a[l]);
    if (std::is_same_v<From, To> && round != Round::None) value = rounded(value, round);
    if (sat) value = value > 0 ? (value < 1 ? value : 1.0f) : 0.0f;
    d[l] = narrow<To>(value, std::is_same_v<From, To> ? Round::NearestEven : round);
  });
  return i + 1;
}
// cvt.rn.f16x2.f32 d, a, b: a is the upper half
template <class Format, bool plain>
const Ins *pack(Warp &w, const Ins *i) {
  const float *a = slot<float>(w, i->a), *b = slot<float>(w, i->b);
  auto round = static_cast<Round>(i->mode);
  int64_t options = i->imm;
  if (plain)
    return each<uint32_t>(w, i, [=](unsigned l) {
      return uint32_t{nearest<Format>(a[l])} << 16 | nearest<Format>(b[l]);
    });
  uint32_t *d = slot<uint32_t>(w, i->d);
  running(w.mask, [&](unsigned l) {
    auto one = [&](float value) { return finished<Format>(narrow<Format>(value, round), options); };
    d[l] = uint32_t{one(a[l])} << 16 | one(b[l]);
  });
  return i + 1;
}

// ---- selection

template <class Format>
Handler half_from_integer(const Ir &ir) {
  if (ir.ftz) return nullptr;
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

template <class Format, class F>
Handler pick_to_half(const Ir &ir) {
  if (sizeof(F) == 8 && ir.ftz) return nullptr;
  bool plain = ir.offset == 0 && ir.round == Round::NearestEven;
  return plain ? to_half_nearest<Format, F> : to_half<Format, F>;
}
template <class Format, class Other>
Handler to_half_type(const Ir &ir, Type own, Type other) {
  if (ir.type2 == own || ir.type2 == other) {
    if (ir.ftz) return nullptr;
    return ir.type2 == own ? half_to_half<Format, Format> : half_to_half<Other, Format>;
  }
  if (ir.type2 == Type::F32) return pick_to_half<Format, float>(ir);
  if (ir.type2 == Type::F64) return pick_to_half<Format, double>(ir);
  return half_from_integer<Format>(ir);
}

template <class Format>
Handler half_to_integer_type(const Ir &ir) {
  switch (ir.type) {
    case Type::U8:
      return half_to_integer<uint8_t, Format>;
    case Type::S8:
      return half_to_integer<int8_t, Format>;
    case Type::U16:
      return half_to_integer<uint16_t, Format>;
    case Type::S16:
      return half_to_integer<int16_t, Format>;
    case Type::U32:
      return half_to_integer<uint32_t, Format>;
    case Type::S32:
      return half_to_integer<int32_t, Format>;
    case Type::U64:
      return half_to_integer<uint64_t, Format>;
    case Type::S64:
      return half_to_integer<int64_t, Format>;
    default:
      return nullptr;
  }
}
template <class Format>
Handler from_half(const Ir &ir) {
  if (ir.type == Type::F64)
    return ir.ftz ? nullptr : ir.sat ? half_to_double<Format, true> : half_to_double<Format, false>;
  if (ir.type != Type::F32) return ir.ftz ? nullptr : half_to_integer_type<Format>(ir);
  if (ir.ftz)
    return ir.sat ? half_to_single<Format, true, true> : half_to_single<Format, true, false>;
  return ir.sat ? half_to_single<Format, false, true> : half_to_single<Format, false, false>;
}

}  // namespace

Handler select_convert_half(const Ir &ir) {
  if (ir.op == Op::ConvertPack) {
    bool plain = ir.offset == 0 && ir.round == Round::NearestEven;
    if (ir.type == Type::F16x2) return plain ? pack<F16Format, true> : pack<F16Format, false>;
    return plain ? pack<BF16Format, true> : pack<BF16Format, false>;
  }
  if (ir.op != Op::Convert) return nullptr;
  if (ir.type == Type::F16) return to_half_type<F16Format, BF16Format>(ir, Type::F16, Type::BF16);
  if (ir.type == Type::BF16) return to_half_type<BF16Format, F16Format>(ir, Type::BF16, Type::F16);
  if (ir.type2 == Type::F16) return from_half<F16Format>(ir);
  if (ir.type2 == Type::BF16) return from_half<BF16Format>(ir);
  return nullptr;
}

}  // namespace softdev::SOFTDEV_ISA
