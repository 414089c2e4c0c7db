#include <functional>

#include "reference.h"

namespace harness {
namespace {

using Exact = std::function<__float128(__float128, __float128, __float128)>;

struct Options {
  bool ftz = false, sat = false, relu = false;
};

uint64_t flushed(const SmallFormat &format, uint64_t h) {
  bool subnormal = std::fabs(format.value(h)) < format.value(format.smallest_normal());
  return subnormal ? h & 0x8000 : h;
}

uint64_t one_value(const SmallFormat &format, const Exact &f, const Options &o, uint64_t a,
                   uint64_t b, uint64_t c) {
  a &= 0xffff, b &= 0xffff, c &= 0xffff;
  if (o.ftz) a = flushed(format, a), b = flushed(format, b), c = flushed(format, c);
  double x = format.value(a), y = format.value(b), z = format.value(c);
  uint64_t result;
  if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(z)) {
    // Infinities and NaN follow double arithmetic.
    result = format.round(static_cast<double>(f(x, y, z)), FE_TONEAREST);
  } else if (__float128 exact = f(x, y, z); exact == 0) {
    result = std::signbit(static_cast<double>(exact)) ? 0x8000 : 0;
  } else {
    result = rounded(format, exact);
  }
  if (o.ftz) result = flushed(format, result);
  double value = format.value(result);
  if (o.sat) {
    if (std::isnan(value) || value <= 0) return 0;
    if (value > 1) return format.round(1.0, FE_TONEAREST);
  }
  if (o.relu) return std::isnan(value) ? 0x7fff : result & 0x8000 ? 0 : result;
  return result;
}

struct Types {
  const SmallFormat &format;
  std::string name;
  Kind one, two;
  bool brain;
};

// The same for one value and for a pair.
void both(const Types &t, const std::string &op, size_t sources, const Reference &one,
          const std::string &bound = {},
          const std::function<bool(uint64_t, uint64_t)> &close = {}) {
  Accept accept, accept_pair;
  if (close) {
    accept = close;
    accept_pair = [=](uint64_t got, uint64_t want) {
      return close(got & 0xffff, want & 0xffff) && close(got >> 16, want >> 16);
    };
  }
  add({op + "." + t.name,
       t.one,
       std::vector<Kind>(sources, t.one),
       one,
       accept,
       {},
       0,
       0,
       {},
       bound});
  add({op + "." + t.name + "x2",
       t.two,
       std::vector<Kind>(sources, t.two),
       [=](uint64_t a, uint64_t b, uint64_t c) {
         return one(a & 0xffff, b & 0xffff, c & 0xffff) | one(a >> 16, b >> 16, c >> 16) << 16;
       },
       accept_pair,
       {},
       0,
       0,
       {},
       bound});
}

void arithmetic(const Types &t, const std::string &op, size_t sources, const Exact &f) {
  bool fma = sources == 3;
  for (const char *round : {".rn", ""})
    for (bool ftz : {false, true})
      for (int option = 0; option < 3; ++option) {
        Options o = {ftz, option == 1, option == 2};
        if ((fma && !*round) || (o.relu && !fma) || (t.brain && (o.ftz || o.sat))) continue;
        const SmallFormat &format = t.format;
        both(t, op + round + (ftz ? ".ftz" : "") + (o.sat ? ".sat" : "") + (o.relu ? ".relu" : ""),
             sources, [=, &format](uint64_t a, uint64_t b, uint64_t c) {
               return one_value(format, f, o, a, b, c);
             });
      }
}

uint64_t extreme(const SmallFormat &format, bool max, bool nan, uint64_t a, uint64_t b) {
  double x = format.value(a), y = format.value(b);
  if (nan && (std::isnan(x) || std::isnan(y))) return 0x7fff;
  if (std::isnan(x) && std::isnan(y)) return 0x7fff;
  if (std::isnan(x)) return b;
  if (std::isnan(y)) return a;
  if (x == y) return std::signbit(x) != max ? a : b;
  return (x < y) != max ? a : b;
}

void extremes(const Types &t) {
  const SmallFormat &format = t.format;
  for (bool max : {false, true})
    for (bool nan : {false, true})
      for (bool ftz : {false, true}) {
        if (ftz && t.brain) continue;
        std::string head =
            std::string(max ? "max" : "min") + (ftz ? ".ftz" : "") + (nan ? ".NaN" : "");
        auto in = [=, &format](uint64_t h) { return ftz ? flushed(format, h) : h; };
        both(t, head, 2, [=, &format](uint64_t a, uint64_t b, uint64_t) {
          return extreme(format, max, nan, in(a), in(b));
        });
        both(t, head + ".xorsign.abs", 2, [=, &format](uint64_t a, uint64_t b, uint64_t) {
          uint64_t r = extreme(format, max, nan, in(a)&0x7fff, in(b)&0x7fff);
          return std::isnan(format.value(r)) ? r : r | ((a ^ b) & 0x8000);
        });
      }
}

void family(const Types &t) {
  using Q = __float128;
  const SmallFormat &format = t.format;
  arithmetic(t, "add", 2, [](Q a, Q b, Q) { return a + b; });
  arithmetic(t, "sub", 2, [](Q a, Q b, Q) { return a - b; });
  arithmetic(t, "mul", 2, [](Q a, Q b, Q) { return a * b; });
  arithmetic(t, "fma", 3, [](Q a, Q b, Q c) {
    // Even 113 bits can lose a tiny addend that decides a tie: it leaves a trace in the last bits.
    Q product = a * b, sum = product + c, part = sum - product;
    Q lost = (product - (sum - part)) + (c - part);
    if (part == 0 && (lost > 0 || lost < 0))
      sum += (lost > 0) == (sum > 0) ? sum * 0x1p-110 : -sum * 0x1p-110;
    return sum;
  });
  extremes(t);
  for (bool ftz : {false, true}) {
    if (ftz && t.brain) continue;
    auto in = [=, &format](uint64_t h) { return ftz ? flushed(format, h) : h; };
    std::string suffix = ftz ? ".ftz" : "";
    both(t, "neg" + suffix, 1, [=](uint64_t a, uint64_t, uint64_t) { return in(a) ^ 0x8000; });
    both(t, "abs" + suffix, 1, [=](uint64_t a, uint64_t, uint64_t) { return in(a)&0x7fff; });
  }
  auto close = [&format](uint64_t got, uint64_t want) {
    double g = format.value(got), w = format.value(want);
    if (std::isnan(w)) return std::isnan(g);
    int64_t distance = static_cast<int64_t>(got & 0x7fff) - static_cast<int64_t>(want & 0x7fff);
    return g == w || (std::signbit(g) == std::signbit(w) && distance >= -1 && distance <= 1);
  };
  both(
      t, "tanh.approx", 1,
      [&format](uint64_t a, uint64_t, uint64_t) {
        return format.round(std::tanh(format.value(a)), FE_TONEAREST);
      },
      "1 ulp", close);
  both(
      t, t.brain ? "ex2.approx.ftz" : "ex2.approx", 1,
      [=, &format](uint64_t a, uint64_t, uint64_t) {
        uint64_t r = format.round(std::exp2(format.value(a)), FE_TONEAREST);
        return t.brain ? flushed(format, r) : r;
      },
      "1 ulp", close);
}

}  // namespace

void half_cases() {
  family({SmallFormat::f16(), "f16", Kind::F16, Kind::F16x2, false});
  family({SmallFormat::bf16(), "bf16", Kind::BF16, Kind::BF16x2, true});
}

}  // namespace harness
