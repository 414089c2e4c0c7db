#include <functional>

#include "reference.h"

namespace harness {
namespace {

using Exact = std::function<float(float, float, float)>;

void arithmetic(const std::string &op, size_t sources, const Exact &f, bool with_sat = true) {
  for (const Rounding &r : kRoundings)
    for (bool ftz : {false, true})
      for (bool sat : {false, true}) {
        if (sat && !with_sat) continue;
        std::string name = op + "." + r.name + (ftz ? ".ftz" : "") + (sat ? ".sat" : "") + ".f32";
        add({name, Kind::F32, std::vector<Kind>(sources, Kind::F32),
             [=](uint64_t a, uint64_t b, uint64_t c) {
               float x = as_float(a), y = as_float(b), z = as_float(c);
               if (ftz) x = flushed(x), y = flushed(y), z = flushed(z);
               volatile float result = under(r.mode, [&] { return f(x, y, z); });
               float out = ftz ? flushed(result) : result;
               if (sat) out = clamped(out);
               return std::isnan(out) ? 0x7fffffff : bits(out);
             }});
      }
}

void extremes() {
  for (bool max : {false, true})
    for (bool ftz : {false, true})
      for (bool nan : {false, true})
        add({std::string(max ? "max" : "min") + (ftz ? ".ftz" : "") + (nan ? ".NaN" : "") + ".f32",
             Kind::F32,
             {Kind::F32, Kind::F32},
             [=](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
               float x = as_float(a), y = as_float(b);
               if (ftz) x = flushed(x), y = flushed(y);
               if (std::isnan(x) && std::isnan(y)) return 0x7fffffff;
               if (nan && (std::isnan(x) || std::isnan(y))) return 0x7fffffff;
               if (std::isnan(x)) return bits(y);
               if (std::isnan(y)) return bits(x);
               if (x == y) return bits(std::signbit(x) != max ? x : y);  // -0 < +0
               return bits((x < y) != max ? x : y);
             }});
}

void approximate(const std::string &op, const std::function<double(double)> &f, Accept accept) {
  for (bool ftz : {false, true})
    add({op + (ftz ? ".approx.ftz.f32" : ".approx.f32"),
         Kind::F32,
         {Kind::F32},
         [=](uint64_t a, uint64_t, uint64_t) {
           float x = as_float(a);
           if (ftz) x = flushed(x);
           float r = static_cast<float>(f(x));
           if (ftz) r = flushed(r);
           return bits(r);
         },
         // A result at the edge of the subnormal range may be flushed or not.
         [=](uint64_t got, uint64_t want) {
           return accept(got, want) || (ftz && std::fabs(as_float(want)) <= 0x1.00001p-126f &&
                                        std::fabs(as_float(got)) <= 0x1.00001p-126f);
         }});
}

}  // namespace

void single_cases() {
  arithmetic("add", 2, [](float a, float b, float) { return a + b; });
  arithmetic("sub", 2, [](float a, float b, float) { return a - b; });
  arithmetic("mul", 2, [](float a, float b, float) { return a * b; });
  arithmetic("fma", 3, [](float a, float b, float c) {
    return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
  });
  arithmetic(
      "div", 2, [](float a, float b, float) { return a / b; }, false);
  arithmetic(
      "rcp", 1, [](float a, float, float) { return 1.0f / a; }, false);
  arithmetic(
      "sqrt", 1, [](float a, float, float) { return std::sqrt(static_cast<float>(a)); }, false);
  add({"add.f32",
       Kind::F32,
       {Kind::F32, Kind::F32},
       [](uint64_t a, uint64_t b, uint64_t) { return bits(as_float(a) + as_float(b)); },
       same_float});
  extremes();
  for (bool ftz : {false, true}) {
    std::string suffix = ftz ? ".ftz.f32" : ".f32";
    auto in = [ftz](uint64_t a) { return ftz ? flushed(as_float(a)) : as_float(a); };
    add({"neg" + suffix,
         Kind::F32,
         {Kind::F32},
         [=](uint64_t a, uint64_t, uint64_t) { return bits(-in(a)); },
         same_float});
    add({"abs" + suffix,
         Kind::F32,
         {Kind::F32},
         [=](uint64_t a, uint64_t, uint64_t) { return bits(std::fabs(in(a))); },
         same_float});
  }
  add({"copysign.f32", Kind::F32, {Kind::F32, Kind::F32}, [](uint64_t a, uint64_t b, uint64_t) {
         return (a & 0x80000000) | (b & 0x7fffffff);
       }});

  // The ISA's bounds: ex2 2 ulp, lg2 2^-22 absolute near 1 else relative, rcp and rsqrt and sqrt
  // 1 to 2 ulp, sin and cos 2^-20.5 absolute in the primary range, tanh 2^-11 relative. Ours are
  // tested against tighter ones.
  approximate(
      "ex2", [](double x) { return std::exp2(x); }, within(22));
  approximate(
      "lg2", [](double x) { return std::log2(x); }, within(22, 0x1p-24));
  approximate(
      "rcp", [](double x) { return 1.0 / x; }, within(23));
  approximate(
      "sqrt", [](double x) { return std::sqrt(x); }, within(23));
  approximate(
      "rsqrt", [](double x) { return 1.0 / std::sqrt(x); }, within(22));
  approximate(
      "sin", [](double x) { return std::isinf(x) ? std::nan("") : std::sin(x); },
      within(21, 0x1p-24));
  approximate(
      "cos", [](double x) { return std::isinf(x) ? std::nan("") : std::cos(x); },
      within(21, 0x1p-24));
  add({"tanh.approx.f32",
       Kind::F32,
       {Kind::F32},
       [](uint64_t a, uint64_t, uint64_t) {
         return bits(static_cast<float>(std::tanh(static_cast<double>(as_float(a)))));
       },
       within(20)});
  add({"div.full.f32",
       Kind::F32,
       {Kind::F32, Kind::F32},
       [](uint64_t a, uint64_t b, uint64_t) { return bits(as_float(a) / as_float(b)); },
       within(22)});
  // Divisors above 2^126 give 0, and NaN for infinite dividends: the ISA says so.
  add({"div.approx.f32",
       Kind::F32,
       {Kind::F32, Kind::F32},
       [](uint64_t a, uint64_t b, uint64_t) {
         float x = as_float(a), y = as_float(b);
         if (std::isfinite(y) && std::fabs(y) > 0x1p126f)
           return std::isfinite(x) ? uint64_t{0} : uint64_t{0x7fffffff};
         return bits(x / y);
       },
       within(22)});
}

}  // namespace harness
