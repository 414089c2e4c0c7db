#include <functional>

#include "reference.h"

namespace harness {
namespace {

using Exact = std::function<__float128(__float128, __float128, __float128)>;

// A __float128 rounded to the format: through long double, made odd where bits are lost.
uint64_t rounded(const SmallFormat &format, __float128 exact) {
  long double x = static_cast<long double>(exact);
  if (std::isfinite(x) && static_cast<__float128>(x) != exact && x != 0) {
    // Which side of x the exact value lies on decides ties only; one more neighbour tells.
    long double other = static_cast<__float128>(x) < exact ? std::nextafter(x, HUGE_VALL)
                                                           : std::nextafter(x, -HUGE_VALL);
    long double middle = x + (other - x) / 2;
    if (middle == x || middle == other) {
      uint64_t a = format.round(x, FE_TONEAREST), b = format.round(other, FE_TONEAREST);
      if (a != b) {
        // x is a tie of the format: the side of the exact value wins.
        return b;
      }
      return a;
    }
  }
  return format.round(x, FE_TONEAREST);
}

void arithmetic(const SmallFormat &format, const std::string &type, Kind kind, Kind pair,
                const std::string &op, size_t sources, const Exact &f) {
  auto one = [=, &format](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
    double x = format.value(a & 0xffff), y = format.value(b & 0xffff), z = format.value(c & 0xffff);
    // Infinities and NaN follow double arithmetic.
    if (!std::isfinite(x) || !std::isfinite(y) || !std::isfinite(z)) {
      double special = static_cast<double>(f(x, y, z));
      return format.round(special, FE_TONEAREST);
    }
    __float128 exact = f(x, y, z);
    if (exact == 0) {
      double sign = static_cast<double>(f(x, y, z));
      return std::signbit(sign) ? 0x8000 : 0;
    }
    return rounded(format, exact);
  };
  add({op + "." + type, kind, std::vector<Kind>(sources, kind), one});
  add({op + "." + type + "x2", pair, std::vector<Kind>(sources, pair),
       [=](uint64_t a, uint64_t b, uint64_t c) {
         return one(a, b, c) | one(a >> 16, b >> 16, c >> 16) << 16;
       }});
}

void family(const SmallFormat &format, const std::string &type, Kind kind, Kind pair) {
  using Q = __float128;
  arithmetic(format, type, kind, pair, "add.rn", 2, [](Q a, Q b, Q) { return a + b; });
  arithmetic(format, type, kind, pair, "sub.rn", 2, [](Q a, Q b, Q) { return a - b; });
  arithmetic(format, type, kind, pair, "mul.rn", 2, [](Q a, Q b, Q) { return a * b; });
  arithmetic(format, type, kind, pair, "fma.rn", 3, [](Q a, Q b, Q c) {
    // Even 113 bits can lose a tiny addend that decides a tie: it leaves a trace in the last bits.
    Q product = a * b, sum = product + c, part = sum - product;
    Q lost = (product - (sum - part)) + (c - part);
    if (part == 0 && (lost > 0 || lost < 0))
      sum += (lost > 0) == (sum > 0) ? sum * 0x1p-110 : -sum * 0x1p-110;
    return sum;
  });
  for (bool max : {false, true})
    for (bool nan : {false, true})
      add({std::string(max ? "max." : "min.") + (nan ? "NaN." : "") + type,
           kind,
           {kind, kind},
           [=, &format](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
             double x = format.value(a), y = format.value(b);
             if (nan && (std::isnan(x) || std::isnan(y))) return 0x7fff;
             if (std::isnan(x) && std::isnan(y)) return 0x7fff;
             if (std::isnan(x)) return b;
             if (std::isnan(y)) return a;
             if (x == y) return std::signbit(x) != max ? a : b;
             return (x < y) != max ? a : b;
           }});
  add({"neg." + type, kind, {kind}, [](uint64_t a, uint64_t, uint64_t) { return a ^ 0x8000; }});
  add({"abs." + type, kind, {kind}, [](uint64_t a, uint64_t, uint64_t) { return a & 0x7fff; }});
  auto close = [&format](uint64_t got, uint64_t want) {
    double g = format.value(got), w = format.value(want);
    if (std::isnan(w)) return std::isnan(g);
    int64_t distance = static_cast<int64_t>(got & 0x7fff) - static_cast<int64_t>(want & 0x7fff);
    return g == w || (std::signbit(g) == std::signbit(w) && distance >= -1 && distance <= 1);
  };
  add({"tanh.approx." + type,
       kind,
       {kind},
       [&format](uint64_t a, uint64_t, uint64_t) {
         return format.round(std::tanh(format.value(a)), FE_TONEAREST);
       },
       close});
  bool brain = kind == Kind::BF16;
  add({std::string("ex2.approx.") + (brain ? "ftz." : "") + type,
       kind,
       {kind},
       [=, &format](uint64_t a, uint64_t, uint64_t) {
         double x = format.value(a);
         uint64_t r = format.round(std::exp2(x), FE_TONEAREST);
         return brain && r < 0x80 ? 0 : r;
       },
       close});
}

}  // namespace

void half_cases() {
  family(SmallFormat::f16(), "f16", Kind::F16, Kind::F16x2);
  family(SmallFormat::bf16(), "bf16", Kind::BF16, Kind::BF16x2);
  const SmallFormat &f16 = SmallFormat::f16();
  add({"add.sat.f16", Kind::F16, {Kind::F16, Kind::F16}, [&](uint64_t a, uint64_t b, uint64_t) {
         double sum = f16.value(a) + f16.value(b);
         return f16.round(std::isnan(sum) || sum <= 0 ? 0.0 : sum > 1 ? 1.0 : sum, FE_TONEAREST);
       }});
  add({"fma.rn.relu.f16",
       Kind::F16,
       {Kind::F16, Kind::F16, Kind::F16},
       [&](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
         double x = f16.value(a), y = f16.value(b), z = f16.value(c);
         double near = x * y + z;
         if (std::isnan(near)) return 0x7fff;
         if (std::isinf(near)) return near < 0 ? 0 : 0x7c00;
         __float128 exact = static_cast<__float128>(x) * y + z;
         return exact <= 0 ? 0 : rounded(f16, exact);
       }});
}

}  // namespace harness
