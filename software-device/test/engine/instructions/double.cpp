#include <functional>

#include "reference.h"

namespace harness {
namespace {

using Exact = std::function<double(double, double, double)>;

void arithmetic(const std::string &op, size_t sources, const Exact &f) {
  std::vector<Rounding> roundings(std::begin(kRoundings), std::end(kRoundings));
  // Where a rounding may be left out, it is to nearest.
  if (op == "add" || op == "sub" || op == "mul") roundings.push_back({"", FE_TONEAREST});
  for (const Rounding &r : roundings)
    add({op + (*r.name ? "." : "") + r.name + ".f64", Kind::F64,
         std::vector<Kind>(sources, Kind::F64),
         [=](uint64_t a, uint64_t b, uint64_t c) {
           volatile double result =
               under(r.mode, [&] { return f(as_double(a), as_double(b), as_double(c)); });
           return bits(static_cast<double>(result));
         },
         same_double});
}

}  // namespace

void double_cases() {
  using V = double;
  arithmetic("add", 2, [](V a, V b, V) { return a + b; });
  arithmetic("sub", 2, [](V a, V b, V) { return a - b; });
  arithmetic("mul", 2, [](V a, V b, V) { return a * b; });
  arithmetic("div", 2, [](V a, V b, V) { return a / b; });
  arithmetic("fma", 3, [](V a, V b, V c) {
    return std::fma(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c));
  });
  arithmetic("mad", 3, [](V a, V b, V c) {
    return std::fma(static_cast<double>(a), static_cast<double>(b), static_cast<double>(c));
  });
  arithmetic("rcp", 1, [](V a, V, V) { return 1.0 / a; });
  arithmetic("sqrt", 1, [](V a, V, V) { return std::sqrt(static_cast<double>(a)); });
  for (bool max : {false, true})
    add({max ? "max.f64" : "min.f64",
         Kind::F64,
         {Kind::F64, Kind::F64},
         [=](uint64_t a, uint64_t b, uint64_t) {
           double x = as_double(a), y = as_double(b);
           if (std::isnan(x)) return bits(y);
           if (std::isnan(y)) return bits(x);
           if (x == y) return bits(std::signbit(x) != max ? x : y);
           return bits((x < y) != max ? x : y);
         },
         same_double});
  add({"neg.f64", Kind::F64, {Kind::F64}, [](uint64_t a, uint64_t, uint64_t) {
         return a ^ uint64_t { 1 } << 63;
       }});
  add({"abs.f64", Kind::F64, {Kind::F64}, [](uint64_t a, uint64_t, uint64_t) {
         return a & ~(uint64_t{1} << 63);
       }});
  add({"copysign.f64", Kind::F64, {Kind::F64, Kind::F64}, [](uint64_t a, uint64_t b, uint64_t) {
         uint64_t sign = uint64_t{1} << 63;
         return (a & sign) | (b & ~sign);
       }});
  // Upper halves only, subnormals flushed; 20 bits are good.
  auto coarse = [](uint64_t got, uint64_t want) {
    double g = as_double(got), w = as_double(want);
    if (got & 0xffffffff) return false;
    if (std::isnan(w)) return std::isnan(g);
    if (std::fabs(w) < 0x1.0p-1021) return std::fabs(g) < 0x1.0p-1021;
    if (std::isinf(w)) return g == w;
    return std::fabs(g - w) <= std::ldexp(std::fabs(w), -19);
  };
  auto upper = [](uint64_t a) {
    double x = as_double(a & 0xffffffff00000000);
    return std::fpclassify(x) == FP_SUBNORMAL ? std::copysign(0.0, x) : x;
  };
  add({"rcp.approx.ftz.f64",
       Kind::F64,
       {Kind::F64},
       [=](uint64_t a, uint64_t, uint64_t) { return bits(1.0 / upper(a)); },
       coarse,
       {},
       0,
       0,
       {},
       "2^-19 relative"});
  add({"rsqrt.approx.ftz.f64",
       Kind::F64,
       {Kind::F64},
       [=](uint64_t a, uint64_t, uint64_t) { return bits(1.0 / std::sqrt(upper(a))); },
       coarse,
       {},
       0,
       0,
       {},
       "2^-19 relative"});
  add({"rsqrt.approx.f64",
       Kind::F64,
       {Kind::F64},
       [=](uint64_t a, uint64_t, uint64_t) { return bits(1.0 / std::sqrt(as_double(a))); },
       [](uint64_t got, uint64_t want) {
         double g = as_double(got), w = as_double(want);
         if (std::isnan(w)) return std::isnan(g);
         return g == w || std::fabs(g - w) <= std::ldexp(std::fabs(w), -50);
       },
       {},
       0,
       0,
       {},
       "2^-50 relative"});
}

}  // namespace harness
