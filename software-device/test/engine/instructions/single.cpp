#include <functional>

#include "reference.h"

namespace harness {
namespace {

using Exact = std::function<float(float, float, float)>;

// The reference of one operation with its options.
Reference with_options(const Exact &f, int mode, bool ftz, bool sat) {
  return [=](uint64_t a, uint64_t b, uint64_t c) {
    float x = as_float(a), y = as_float(b), z = as_float(c);
    if (ftz) x = flushed(x), y = flushed(y), z = flushed(z);
    volatile float result = under(mode, [&] { return f(x, y, z); });
    float out = ftz ? flushed(result) : result;
    if (sat) out = clamped(out);
    return std::isnan(out) ? 0x7fffffff : bits(out);
  };
}

// `unnamed`: the rounding may be left out, and is to nearest then.
void arithmetic(const std::string &op, size_t sources, const Exact &f, bool with_sat,
                bool unnamed) {
  std::vector<Rounding> roundings(std::begin(kRoundings), std::end(kRoundings));
  if (unnamed) roundings.push_back({"", FE_TONEAREST});
  for (const Rounding &r : roundings)
    for (bool ftz : {false, true})
      for (bool sat : {false, true}) {
        if (sat && !with_sat) continue;
        std::string name =
            op + (*r.name ? "." : "") + r.name + (ftz ? ".ftz" : "") + (sat ? ".sat" : "") + ".f32";
        add({name, Kind::F32, std::vector<Kind>(sources, Kind::F32),
             with_options(f, r.mode, ftz, sat)});
      }
}

// Two at once; and with 16-bit operands, which are widened.
void pairs(const std::string &op, size_t sources, const Exact &f, bool unnamed) {
  std::vector<Rounding> roundings(std::begin(kRoundings), std::end(kRoundings));
  if (unnamed) roundings.push_back({"", FE_TONEAREST});
  for (const Rounding &r : roundings)
    for (bool ftz : {false, true}) {
      Reference one = with_options(f, r.mode, ftz, false);
      add({op + (*r.name ? "." : "") + r.name + (ftz ? ".ftz" : "") + ".f32x2", Kind::F32x2,
           std::vector<Kind>(sources, Kind::F32x2), [=](uint64_t a, uint64_t b, uint64_t c) {
             return one(a, b, c) | one(a >> 32, b >> 32, c >> 32) << 32;
           }});
    }
}
void mixed(const std::string &op, size_t halves, const Exact &f, bool unnamed) {
  std::vector<Rounding> roundings(std::begin(kRoundings), std::end(kRoundings));
  if (unnamed) roundings.push_back({"", FE_TONEAREST});
  for (const Rounding &r : roundings)
    for (bool sat : {false, true})
      for (bool brain : {false, true}) {
        Reference one = with_options(f, r.mode, false, sat);
        const SmallFormat &format = brain ? SmallFormat::bf16() : SmallFormat::f16();
        auto wide = [&format](uint64_t h) { return bits(static_cast<float>(format.value(h))); };
        Kind half = brain ? Kind::BF16 : Kind::F16;
        std::vector<Kind> sources(halves, half);
        sources.push_back(Kind::F32);
        add({op + (*r.name ? "." : "") + r.name + (sat ? ".sat" : "") + ".f32" +
                 (brain ? ".bf16" : ".f16"),
             Kind::F32, sources, [=](uint64_t a, uint64_t b, uint64_t c) {
               return halves == 1 ? one(wide(a), b, 0) : one(wide(a), wide(b), c);
             }});
      }
}

uint64_t extreme(bool max, bool nan, float x, float y) {
  if (std::isnan(x) && std::isnan(y)) return 0x7fffffff;
  if (nan && (std::isnan(x) || std::isnan(y))) return 0x7fffffff;
  if (std::isnan(x)) return bits(y);
  if (std::isnan(y)) return bits(x);
  if (x == y) return bits(std::signbit(x) != max ? x : y);  // -0 < +0
  return bits((x < y) != max ? x : y);
}

void extremes() {
  for (bool max : {false, true})
    for (bool ftz : {false, true})
      for (bool nan : {false, true}) {
        std::string head =
            std::string(max ? "max" : "min") + (ftz ? ".ftz" : "") + (nan ? ".NaN" : "");
        auto in = [=](uint64_t a) { return ftz ? flushed(as_float(a)) : as_float(a); };
        add({head + ".f32",
             Kind::F32,
             {Kind::F32, Kind::F32},
             [=](uint64_t a, uint64_t b, uint64_t) { return extreme(max, nan, in(a), in(b)); }});
        // Of magnitudes, with the sign that a product would have.
        add({head + ".xorsign.abs.f32",
             Kind::F32,
             {Kind::F32, Kind::F32},
             [=](uint64_t a, uint64_t b, uint64_t) {
               uint64_t r = extreme(max, nan, std::fabs(in(a)), std::fabs(in(b)));
               bool negative = std::signbit(as_float(a)) != std::signbit(as_float(b));
               return std::isnan(as_float(r)) || !negative ? r : r | 0x80000000;
             }});
        for (bool magnitudes : {false, true})
          add({head + (magnitudes ? ".abs.f32" : ".f32") + " $d, $a, $b, $c",
               Kind::F32,
               {Kind::F32, Kind::F32, Kind::F32},
               [=](uint64_t a, uint64_t b, uint64_t c) {
                 float v[3] = {in(a), in(b), in(c)};
                 if (magnitudes)
                   for (float &x : v) x = std::fabs(x);
                 return extreme(max, nan, as_float(extreme(max, nan, v[0], v[1])), v[2]);
               }});
      }
}

void approximate(const std::string &op, const std::function<double(double)> &f, Accept accept,
                 const std::string &bound) {
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
         },
         {},
         0,
         0,
         {},
         bound});
}

}  // namespace

void single_cases() {
  Exact sum = [](float a, float b, float) { return a + b; };
  Exact difference = [](float a, float b, float) { return a - b; };
  Exact product = [](float a, float b, float) { return a * b; };
  Exact fused = [](float a, float b, float c) {
    return std::fma(static_cast<float>(a), static_cast<float>(b), static_cast<float>(c));
  };
  arithmetic("add", 2, sum, true, true);
  arithmetic("sub", 2, difference, true, true);
  arithmetic("mul", 2, product, true, true);
  arithmetic("fma", 3, fused, true, false);
  arithmetic("mad", 3, fused, true, false);
  arithmetic(
      "div", 2, [](float a, float b, float) { return a / b; }, false, false);
  arithmetic(
      "rcp", 1, [](float a, float, float) { return 1.0f / a; }, false, false);
  arithmetic(
      "sqrt", 1, [](float a, float, float) { return std::sqrt(static_cast<float>(a)); }, false,
      false);
  pairs("add", 2, sum, true);
  pairs("sub", 2, difference, true);
  pairs("mul", 2, product, true);
  pairs("fma", 3, fused, false);
  mixed("add", 1, sum, true);
  mixed("sub", 1, difference, true);
  mixed("fma", 2, fused, false);
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
      "ex2", [](double x) { return std::exp2(x); }, within(22), "2^-22 relative");
  approximate(
      "lg2", [](double x) { return std::log2(x); }, within(22, 0x1p-24), "2^-22 relative or 2^-24");
  approximate(
      "rcp", [](double x) { return 1.0 / x; }, within(23), "2^-23 relative");
  approximate(
      "sqrt", [](double x) { return std::sqrt(x); }, within(23), "2^-23 relative");
  approximate(
      "rsqrt", [](double x) { return 1.0 / std::sqrt(x); }, within(22), "2^-22 relative");
  approximate(
      "sin", [](double x) { return std::isinf(x) ? std::nan("") : std::sin(x); },
      within(21, 0x1p-24), "2^-21 relative or 2^-24");
  approximate(
      "cos", [](double x) { return std::isinf(x) ? std::nan("") : std::cos(x); },
      within(21, 0x1p-24), "2^-21 relative or 2^-24");
  add({"tanh.approx.f32",
       Kind::F32,
       {Kind::F32},
       [](uint64_t a, uint64_t, uint64_t) {
         return bits(static_cast<float>(std::tanh(static_cast<double>(as_float(a)))));
       },
       within(20),
       {},
       0,
       0,
       {},
       "2^-20 relative"});
  for (bool ftz : {false, true}) {
    auto in = [ftz](uint64_t a) { return ftz ? flushed(as_float(a)) : as_float(a); };
    auto out = [ftz](float r) { return bits(ftz ? flushed(r) : r); };
    std::string suffix = ftz ? ".ftz.f32" : ".f32";
    Accept close = within(22);
    add({"div.full" + suffix,
         Kind::F32,
         {Kind::F32, Kind::F32},
         [=](uint64_t a, uint64_t b, uint64_t) { return out(in(a) / in(b)); },
         close,
         {},
         0,
         0,
         {},
         "2^-22 relative"});
    // Divisors above 2^126 give 0, and NaN for infinite dividends: the ISA says so.
    add({"div.approx" + suffix,
         Kind::F32,
         {Kind::F32, Kind::F32},
         [=](uint64_t a, uint64_t b, uint64_t) {
           float x = in(a), y = in(b);
           if (std::isfinite(y) && std::fabs(y) > 0x1p126f)
             return std::isfinite(x) ? uint64_t{0} : uint64_t{0x7fffffff};
           return out(x / y);
         },
         close,
         {},
         0,
         0,
         {},
         "2^-22 relative"});
  }
}

}  // namespace harness
