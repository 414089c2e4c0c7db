// cvt from and to f16 and bf16.
#include "execute/ops/convert.h"
#include "execute/ops/families.h"
#include "execute/ops/half.h"

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
Handler from_f16(const Ir &ir) {
  if (ir.type == Type::F64) return ir.sat || ir.ftz ? nullptr : half_to_double<F16Format>;
  if (ir.type != Type::F32) return ir.ftz ? nullptr : half_to_integer_type<F16Format>(ir);
  if (ir.ftz)
    return ir.sat ? half_to_single<F16Format, true, true> : half_to_single<F16Format, true, false>;
  return ir.sat ? half_to_single<F16Format, false, true> : half_to_single<F16Format, false, false>;
}
Handler from_bf16(const Ir &ir) {
  if (ir.ftz) return nullptr;
  if (ir.type == Type::F64) return ir.sat ? nullptr : half_to_double<BF16Format>;
  if (ir.type == Type::F32) return ir.sat ? nullptr : half_to_single<BF16Format, false, false>;
  return half_to_integer_type<BF16Format>(ir);
}

}  // namespace

Handler select_convert_half(const Ir &ir) {
  if (ir.op == Op::ConvertPack) {
    if (ir.round != Round::NearestEven && ir.round != Round::Zero) return nullptr;
    if (ir.type == Type::F16x2) return ir.relu ? pack<F16Format, true> : pack<F16Format, false>;
    return ir.relu ? pack<BF16Format, true> : pack<BF16Format, false>;
  }
  if (ir.op != Op::Convert) return nullptr;
  if (ir.type == Type::F16) return to_half_type<F16Format, BF16Format>(ir, Type::F16, Type::BF16);
  if (ir.type == Type::BF16) return to_half_type<BF16Format, F16Format>(ir, Type::BF16, Type::F16);
  if (ir.relu) return nullptr;
  if (ir.type2 == Type::F16) return from_f16(ir);
  if (ir.type2 == Type::BF16) return from_bf16(ir);
  return nullptr;
}

}  // namespace softdev::SOFTDEV_ISA
