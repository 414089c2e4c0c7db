// Conversions of 8-bit and smaller floating-point values, by lists of all values that a format has.
#include <cmath>
#include <string>
#include <vector>

#include "reference.h"

namespace harness {
namespace {

class Tiny {
 public:
  Tiny(const char *name, int exponent, int mantissa, bool has_infinity, bool has_nan)
      : name_(name), bits_(1 + exponent + mantissa), values_(size_t{1} << bits_) {
    int bias = (1 << (exponent - 1)) - 1, half = 1 << (exponent + mantissa);
    for (int code = 0; code < half; ++code) {
      int e = code >> mantissa, m = code & ((1 << mantissa) - 1);
      double v = e ? std::ldexp(1 + std::ldexp(m, -mantissa), e - bias)
                   : std::ldexp(m, 1 - bias - mantissa);
      if (has_infinity && e == (1 << exponent) - 1) v = m ? std::nan("") : HUGE_VAL;
      if (!has_infinity && has_nan && code == half - 1) v = std::nan("");
      if (std::isfinite(v)) largest_ = code;
      values_[static_cast<size_t>(code)] = v;
      values_[static_cast<size_t>(code + half)] = -v;
    }
    has_nan_ = has_nan;
    sign_ = static_cast<uint64_t>(half);
  }
  const std::string &name() const { return name_; }
  int step() const { return bits_ == 4 ? 4 : 8; }
  uint64_t mask() const { return (uint64_t{1} << bits_) - 1; }
  double value(uint64_t code) const { return values_[code & mask()]; }
  // The nearest one; of two, the even one. Never infinite.
  uint64_t nearest(double x, bool relu) const {
    if (std::isnan(x)) return has_nan_ ? sign_ - 1 : static_cast<uint64_t>(largest_);
    if (relu && std::signbit(x)) return 0;
    double magnitude = std::fabs(x);
    int best = 0;
    for (int code = 1; code <= largest_; ++code) {
      double now = std::fabs(values_[static_cast<size_t>(code)] - magnitude);
      double before = std::fabs(values_[static_cast<size_t>(best)] - magnitude);
      if (now < before || (now == before && code % 2 == 0)) best = code;
    }
    // Far away all are equally near, to the last bit of a double.
    if (magnitude >= values_[static_cast<size_t>(largest_)]) best = largest_;
    return static_cast<uint64_t>(best) | (std::signbit(x) ? sign_ : 0);
  }

 private:
  std::string name_;
  int bits_, largest_ = 0;
  uint64_t sign_ = 0;
  bool has_nan_ = false;
  std::vector<double> values_;
};

// Values near those of a format and between them, as f32.
std::vector<uint64_t> interesting(const Tiny &t) {
  std::vector<uint64_t> all;
  for (uint64_t code = 0; code <= t.mask(); ++code) {
    double x = t.value(code), y = t.value(code + 1);
    if (!std::isfinite(x)) continue;
    auto single = static_cast<float>(x);
    all.push_back(bits(single));
    if (!std::isfinite(y)) continue;
    auto middle = static_cast<float>((x + y) / 2);
    all.insert(all.end(), {bits(middle), bits(std::nextafter(middle, HUGE_VALF)),
                           bits(std::nextafter(middle, -HUGE_VALF))});
  }
  for (float x : {1e-30f, -1e-30f, 449.0f, 464.0f, 480.0f, -1e6f, 57344.0f, 61440.0f, 65536.0f,
                  3e38f, HUGE_VALF, -HUGE_VALF, std::nanf("")})
    all.push_back(bits(x));
  return all;
}

void format(const Tiny &t) {
  int step = t.step();
  Kind narrow = step == 4 ? Kind::B8 : Kind::B16;
  for (bool relu : {false, true}) {
    std::string option = relu ? ".relu" : "";
    // b runs over the values where rounding decides, a over the usual ones.
    add({"cvt.rn.satfinite" + option + "." + t.name() + "x2.f32",
         narrow,
         {Kind::F32, Kind::F32},
         [=](uint64_t a, uint64_t b, uint64_t) {
           return t.nearest(as_float(a), relu) << step | t.nearest(as_float(b), relu);
         },
         nullptr,
         interesting(t)});
    for (bool brain : {false, true}) {
      const SmallFormat &half = brain ? SmallFormat::bf16() : SmallFormat::f16();
      std::string pair = brain ? "bf16x2" : "f16x2";
      // All halves: each beside its bits inverted.
      add({"{ .reg .b16 n; .reg .b32 x; not.b16 n, $a; mov.b32 x, {$a, n}; cvt.rn.satfinite" +
               option + "." + t.name() + "x2." + pair + " $d, x; }",
           narrow,
           {brain ? Kind::BF16 : Kind::F16},
           [=, &half](uint64_t a, uint64_t, uint64_t) {
             return t.nearest(half.value(~a & 0xffff), relu) << step |
                    t.nearest(half.value(a), relu);
           },
           nullptr,
           {},
           0,
           0,
           "cvt.rn.satfinite" + option + "." + t.name() + "x2." + pair});
      add({"cvt.rn" + option + "." + pair + "." + t.name() + "x2",
           Kind::B32,
           {narrow},
           [=, &half](uint64_t a, uint64_t, uint64_t) {
             auto one = [&](uint64_t code) -> uint64_t {
               double x = t.value(code);
               if (std::isnan(x)) return 0x7fff;
               return relu && std::signbit(x) ? 0 : half.round(x, FE_TONEAREST);
             };
             return one(a >> step) << 16 | one(a);
           }});
    }
  }
}

// Powers of two from 2^-127: the exponent of the value, or of the next power above.
uint64_t scale(double x, bool up, bool finite) {
  if (std::isnan(x)) return 0xff;
  double magnitude = std::fabs(x);
  uint64_t code = 0;
  while (code < 0xff && std::ldexp(1.0, static_cast<int>(code) - 127) < magnitude) ++code;
  if (!up && code && std::ldexp(1.0, static_cast<int>(code) - 127) > magnitude) --code;
  if (!up && std::isinf(x)) code = 0xff;
  return finite && code == 0xff ? 0xfe : code;
}

void scales() {
  for (bool up : {false, true})
    for (bool finite : {false, true}) {
      std::string head =
          std::string(up ? "cvt.rp" : "cvt.rz") + (finite ? ".satfinite" : "") + ".ue8m0x2.";
      add({head + "f32", Kind::B16, {Kind::F32, Kind::F32}, [=](uint64_t a, uint64_t b, uint64_t) {
             return scale(as_float(a), up, finite) << 8 | scale(as_float(b), up, finite);
           }});
      add({"{ .reg .b16 n; .reg .b32 x; not.b16 n, $a; mov.b32 x, {$a, n}; " + head +
               "bf16x2 $d, x; }",
           Kind::B16,
           {Kind::BF16},
           [=](uint64_t a, uint64_t, uint64_t) {
             const SmallFormat &half = SmallFormat::bf16();
             return scale(half.value(~a & 0xffff), up, finite) << 8 |
                    scale(half.value(a), up, finite);
           },
           nullptr,
           {},
           0,
           0,
           head + "bf16x2"});
    }
  add({"cvt.rn.bf16x2.ue8m0x2", Kind::B32, {Kind::B16}, [](uint64_t a, uint64_t, uint64_t) {
         auto one = [](uint64_t code) -> uint64_t {
           if (code == 0xff) return 0x7fff;
           return SmallFormat::bf16().round(std::ldexp(1.0, static_cast<int>(code) - 127),
                                            FE_TONEAREST);
         };
         return one(a >> 8) << 16 | one(a & 0xff);
       }});
}

}  // namespace

void small_cases() {
  format(Tiny("e4m3", 4, 3, false, true));
  format(Tiny("e5m2", 5, 2, true, true));
  format(Tiny("e2m3", 2, 3, false, false));
  format(Tiny("e3m2", 3, 2, false, false));
  format(Tiny("e2m1", 2, 1, false, false));
  scales();
}

}  // namespace harness
