// cvt of pairs of 8-bit and smaller floating-point values, to tf32, and cvt.pack.
#include <array>

#include "execute/ops/arithmetic/half.h"
#include "execute/ops/families.h"

namespace softdev::SOFTDEV_ISA {
namespace {

struct Format {
  uint8_t exponent, mantissa;      // bits
  uint8_t largest, infinity, nan;  // codes without a sign; 0: there is none
  constexpr int bias() const { return (1 << (exponent - 1)) - 1; }
  constexpr unsigned sign() const { return 1u << (exponent + mantissa); }
};
constexpr Format kE4M3{4, 3, 0x7e, 0, 0x7f}, kE5M2{5, 2, 0x7b, 0x7c, 0x7f};
constexpr Format kE2M3{2, 3, 0x1f, 0, 0}, kE3M2{3, 2, 0x1f, 0, 0}, kE2M1{2, 1, 0x07, 0, 0};

// Rounded to nearest even and limited to finite values.
template <const Format &format>
uint32_t to_small(float value, bool relu) {
  uint32_t bits = bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return format.nan ? format.nan : format.largest;
  uint32_t sign = bits >> 31 ? format.sign() : 0;
  if (relu && sign) return 0;
  // The exponent of the last bit kept: subnormal results have it fixed.
  int exponent = static_cast<int>(magnitude >> 23) - 127;
  int least = 1 - format.bias();
  if (exponent < least) exponent = least;
  // |value| in units of the last bit: below 2^(mantissa + 1) exactly representable, rounded here.
  float scale = bit_cast<float>(static_cast<uint32_t>(127 + format.mantissa - exponent) << 23);
  if (exponent > 15) return sign | format.largest;
  float units = __builtin_rintf(bit_cast<float>(magnitude) * scale);
  auto count = static_cast<uint32_t>(units);
  uint32_t code = (static_cast<uint32_t>(exponent - least) << format.mantissa) + count;
  return sign | (code < format.largest ? code : format.largest);
}

// The half that a code stands for; every value of these formats is a finite half.
template <const Format &format, class Half>
constexpr uint16_t to_half(unsigned code) {
  unsigned sign = code & format.sign() ? 0x8000 : 0, rest = code & (format.sign() - 1);
  if (format.nan && rest > format.largest) {
    if (rest == format.infinity) return static_cast<uint16_t>(sign | Half::kInfinity);
    return Half::kNan;
  }
  unsigned exponent = rest >> format.mantissa, mantissa = rest & ((1u << format.mantissa) - 1);
  int power = 1 - format.bias();  // of the leading bit
  if (exponent) {
    power = static_cast<int>(exponent) - format.bias();
  } else {
    if (!mantissa) return static_cast<uint16_t>(sign);
    while (!(mantissa >> format.mantissa)) mantissa <<= 1, --power;
    mantissa &= (1u << format.mantissa) - 1;
  }
  unsigned fraction = mantissa << (Half::kMantissa - format.mantissa);
  int biased = power + Half::kBias;
  if (biased > 0)
    return static_cast<uint16_t>(sign | static_cast<unsigned>(biased) << Half::kMantissa |
                                 fraction);
  return static_cast<uint16_t>(sign | ((1u << Half::kMantissa) | fraction) >> (1 - biased));
}
template <const Format &format, class Half>
struct Table {
  static constexpr std::array<uint16_t, 256> make() {
    std::array<uint16_t, 256> all{};
    for (unsigned code = 0; code < 256; ++code)
      all[code] = to_half<format, Half>(code & (2 * format.sign() - 1));
    return all;
  }
  static constexpr std::array<uint16_t, 256> kAll = make();
};

// Elements lie `kStep` bits apart.
template <const Format &format>
constexpr unsigned kStep = &format == &kE2M1 ? 4 : 8;

template <const Format &format>
const Ins *from_singles(Warp &w, const Ins *i) {
  const float *a = slot<float>(w, i->a), *b = slot<float>(w, i->b);
  uint16_t *d = slot<uint16_t>(w, i->d);
  bool relu = i->imm & kConvertRelu;
  running(w.mask, [&](unsigned l) {
    d[l] = static_cast<uint16_t>(to_small<format>(a[l], relu) << kStep<format> |
                                 to_small<format>(b[l], relu));
  });
  return i + 1;
}
template <const Format &format, class Half>
const Ins *from_halves(Warp &w, const Ins *i) {
  const uint32_t *a = slot<uint32_t>(w, i->a);
  uint16_t *d = slot<uint16_t>(w, i->d);
  bool relu = i->imm & kConvertRelu;
  running(w.mask, [&](unsigned l) {
    float low = widen<Half>(static_cast<uint16_t>(a[l]));
    float high = widen<Half>(static_cast<uint16_t>(a[l] >> 16));
    d[l] = static_cast<uint16_t>(to_small<format>(high, relu) << kStep<format> |
                                 to_small<format>(low, relu));
  });
  return i + 1;
}
template <const Format &format, class Half>
const Ins *to_halves(Warp &w, const Ins *i) {
  const uint16_t *a = slot<uint16_t>(w, i->a);
  uint32_t *d = slot<uint32_t>(w, i->d);
  bool relu = i->imm & kConvertRelu;
  const auto &table = Table<format, Half>::kAll;
  constexpr unsigned kMask = (1u << kStep<format>)-1;
  running(w.mask, [&](unsigned l) {
    uint32_t low = table[a[l] & kMask], high = table[(a[l] >> kStep<format>)&kMask];
    if (relu) {
      if (low & 0x8000) low = 0;
      if (high & 0x8000) high = 0;
    }
    d[l] = high << 16 | low;
  });
  return i + 1;
}

template <const Format &format>
Handler pick(const Ir &ir, bool narrows) {
  if (!narrows)
    return ir.type == Type::F16x2 ? to_halves<format, F16Format> : to_halves<format, BF16Format>;
  if (ir.type2 == Type::F32) return from_singles<format>;
  return ir.type2 == Type::F16x2 ? from_halves<format, F16Format> : from_halves<format, BF16Format>;
}

// ---- ue8m0: powers of two, without a sign; 0xff is NaN

uint32_t to_scale(float value, bool up, bool finite) {
  uint32_t bits = bit_cast<uint32_t>(value), magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return 0xff;
  uint32_t exponent = magnitude >> 23, rest = magnitude & 0x7fffffu;
  // Subnormals lie below 2^-126, which code 1 is; code 0 is half of that.
  if (exponent == 0)
    exponent = up ? rest > 0x400000u : 0;
  else if (up && rest)
    ++exponent;
  return exponent < 0xff ? exponent : finite ? 0xfe : 0xff;
}
const Ins *scales_from_singles(Warp &w, const Ins *i) {
  const float *a = slot<float>(w, i->a), *b = slot<float>(w, i->b);
  bool up = static_cast<Round>(i->mode) == Round::Up, finite = i->imm & kConvertSatfinite;
  return each<uint16_t>(w, i, [=](unsigned l) {
    return static_cast<uint16_t>(to_scale(a[l], up, finite) << 8 | to_scale(b[l], up, finite));
  });
}
const Ins *scales_from_halves(Warp &w, const Ins *i) {
  bool up = static_cast<Round>(i->mode) == Round::Up, finite = i->imm & kConvertSatfinite;
  return map1<uint16_t, uint32_t>(w, i, [=](uint32_t a) {
    float low = bit_cast<float>(a << 16), high = bit_cast<float>(a & 0xffff0000u);
    return static_cast<uint16_t>(to_scale(high, up, finite) << 8 | to_scale(low, up, finite));
  });
}
const Ins *scales_to_halves(Warp &w, const Ins *i) {
  return map1<uint32_t, uint16_t>(w, i, [](uint16_t a) {
    auto one = [](uint32_t code) { return code == 0xff ? 0x7fffu : code ? code << 7 : 0x40u; };
    return one(a >> 8) << 16 | one(a & 0xffu);
  });
}

// ---- tf32: single precision with 10 bits of mantissa

const Ins *to_tf32(Warp &w, const Ins *i) {
  auto round = static_cast<Round>(i->mode);
  bool relu = i->imm & kConvertRelu, finite = i->imm & kConvertSatfinite;
  return map1<uint32_t, uint32_t>(w, i, [=](uint32_t a) -> uint32_t {
    uint32_t sign = a & 0x80000000u, magnitude = a & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return 0x7fffffffu;
    if (relu && sign) return 0;
    uint32_t add = round == Round::Zero          ? 0u
                   : round == Round::NearestAway ? 0x1000u
                                                 : 0xfffu + ((magnitude >> 13) & 1);
    uint32_t r = magnitude == 0x7f800000u ? magnitude : (magnitude + add) & ~0x1fffu;
    if (finite && r > 0x7f7fe000u) r = 0x7f7fe000u;
    return sign | r;
  });
}

// ---- cvt.pack

const Ins *integers(Warp &w, const Ins *i) {
  unsigned bits = i->mode;
  int32_t most = (1 << (bits - (i->imm ? 1 : 0))) - 1, least = i->imm ? -most - 1 : 0;
  uint32_t mask = (1u << bits) - 1;
  const int32_t *a = slot<int32_t>(w, i->a), *b = slot<int32_t>(w, i->b);
  const uint32_t *c = slot<uint32_t>(w, i->c);
  return each<uint32_t>(w, i, [=](unsigned l) {
    int32_t x = a[l] < least ? least : a[l] > most ? most : a[l];
    int32_t y = b[l] < least ? least : b[l] > most ? most : b[l];
    uint32_t both = (static_cast<uint32_t>(x) & mask) << bits | (static_cast<uint32_t>(y) & mask);
    return bits == 16 ? both : c[l] << (2 * bits) | both;
  });
}

}  // namespace

Handler select_convert_small(const Ir &ir) {
  if (ir.op == Op::ConvertIntegers) return integers;
  if (ir.op == Op::Convert) return ir.type == Type::TF32 ? to_tf32 : nullptr;
  if (ir.op != Op::ConvertSmall) return nullptr;
  bool narrows = ir.type >= Type::E4M3x2;
  switch (narrows ? ir.type : ir.type2) {
    case Type::E4M3x2:
      return pick<kE4M3>(ir, narrows);
    case Type::E5M2x2:
      return pick<kE5M2>(ir, narrows);
    case Type::E2M3x2:
      return pick<kE2M3>(ir, narrows);
    case Type::E3M2x2:
      return pick<kE3M2>(ir, narrows);
    case Type::UE8M0x2:
      return !narrows                ? scales_to_halves
             : ir.type2 == Type::F32 ? scales_from_singles
                                     : scales_from_halves;
    default:
      return pick<kE2M1>(ir, narrows);
  }
}

}  // namespace softdev::SOFTDEV_ISA
