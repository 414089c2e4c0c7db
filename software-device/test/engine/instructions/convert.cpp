#include <algorithm>
#include <bit>
#include <vector>

#include "reference.h"

namespace harness {
namespace {

struct Integer {
  const char *name;
  Kind kind;
  unsigned width;
  bool is_signed;
};
const Integer kIntegers[] = {{"u8", Kind::U8, 8, false},    {"s8", Kind::S8, 8, true},
                             {"u16", Kind::U16, 16, false}, {"s16", Kind::S16, 16, true},
                             {"u32", Kind::U32, 32, false}, {"s32", Kind::S32, 32, true},
                             {"u64", Kind::U64, 64, false}, {"s64", Kind::S64, 64, true}};

__int128 value(const Integer &t, uint64_t raw) {
  __int128 v = raw & (t.width == 64 ? ~uint64_t{0} : (uint64_t{1} << t.width) - 1);
  if (t.is_signed && (v >> (t.width - 1)) & 1) v -= static_cast<__int128>(1) << t.width;
  return v;
}
__int128 lowest(const Integer &t) {
  return t.is_signed ? -(static_cast<__int128>(1) << (t.width - 1)) : 0;
}
__int128 highest(const Integer &t) {
  return (static_cast<__int128>(1) << (t.width - (t.is_signed ? 1 : 0))) - 1;
}
__int128 limited(const Integer &t, __int128 v) {
  return v < lowest(t) ? lowest(t) : v > highest(t) ? highest(t) : v;
}
// What a destination register of `width` bits holds: the type's value, extended.
uint64_t extended(const Integer &t, __int128 v) {
  uint64_t raw = static_cast<uint64_t>(v);
  return static_cast<uint64_t>(value(t, raw));
}

void integers() {
  for (const Integer &to : kIntegers)
    for (const Integer &from : kIntegers) {
      std::string types = std::string(".") + to.name + "." + from.name;
      add({"cvt" + types, to.kind, {from.kind}, [=](uint64_t a, uint64_t, uint64_t) {
             return extended(to, value(from, a));
           }});
      add({"cvt.sat" + types, to.kind, {from.kind}, [=](uint64_t a, uint64_t, uint64_t) {
             return extended(to, limited(to, value(from, a)));
           }});
      // Registers wider than the types.
      if (to.width < 32 && from.width < 32) {
        Case wide = {"cvt" + types, to.kind, {from.kind}, [=](uint64_t a, uint64_t, uint64_t) {
                       return extended(to, value(from, a));
                     }};
        wide.result_register = 32;
        wide.source_register = 32;
        add(wide);
        wide.result_register = 64;
        wide.source_register = 64;
        add(wide);
      }
    }
}

double integral(double x, const std::string &mode) {
  if (mode == "rzi") return std::trunc(x);
  if (mode == "rmi") return std::floor(x);
  if (mode == "rpi") return std::ceil(x);
  return std::nearbyint(x);
}

uint64_t to_integer(const Integer &to, double x, bool from_double) {
  // NaN is 0, or the highest bit where 64 bits are involved.
  if (std::isnan(x))
    return from_double || to.width == 64 ? extended(to, value(to, uint64_t{1} << (to.width - 1)))
                                         : 0;
  if (x >= std::ldexp(1.0, 100)) return extended(to, highest(to));
  if (x <= -std::ldexp(1.0, 100)) return extended(to, lowest(to));
  return extended(to, limited(to, static_cast<__int128>(x)));
}

// A floating-point type: what its bits are worth, and how a number becomes one.
struct Float {
  const char *name;
  Kind kind;
  int bytes;
  double (*value)(uint64_t);
  uint64_t (*rounded)(long double, int mode);  // of a number that is exact
};
double f32_value(uint64_t a) { return as_float(a); }
template <class F>
F narrowed(long double x, int mode) {
  return under(mode, [&] {
    volatile long double in = x;
    volatile F out = static_cast<F>(in);
    return static_cast<F>(out);
  });
}
uint64_t to_f32(long double x, int mode) {
  float y = narrowed<float>(x, mode);
  return std::isnan(y) ? 0x7fffffff : bits(y);
}
uint64_t to_f64(long double x, int mode) { return bits(narrowed<double>(x, mode)); }
const Float kFloats[] = {
    {"f16", Kind::F16, 2, [](uint64_t a) { return SmallFormat::f16().value(a); },
     [](long double x, int mode) { return SmallFormat::f16().round(x, mode); }},
    {"bf16", Kind::BF16, 2, [](uint64_t a) { return SmallFormat::bf16().value(a); },
     [](long double x, int mode) { return SmallFormat::bf16().round(x, mode); }},
    {"f32", Kind::F32, 4, f32_value, to_f32},
    {"f64", Kind::F64, 8, [](uint64_t a) { return as_double(a); }, to_f64},
};
const Float &kF16 = kFloats[0], &kBF16 = kFloats[1], &kF32 = kFloats[2];

double flushed_single(double x) { return flushed(static_cast<float>(x)); }
double clamped_value(double x) { return std::isnan(x) || x <= 0 ? 0.0 : x > 1 ? 1.0 : x; }

void floats_to_integers() {
  for (const Integer &to : kIntegers)
    for (const Float &from : kFloats)
      for (const char *mode : {"rni", "rzi", "rmi", "rpi"})
        for (bool ftz : {false, true})
          for (bool sat : {false, true}) {
            bool brain = &from == &kBF16;
            if ((ftz && &from != &kF32) || (sat && brain) || (brain && to.width == 8)) continue;
            std::string m = mode;
            add({"cvt." + m + (ftz ? ".ftz" : "") + (sat ? ".sat" : "") + "." + to.name + "." +
                     from.name,
                 to.kind,
                 {from.kind},
                 [=](uint64_t a, uint64_t, uint64_t) {
                   double x = from.value(a);
                   if (ftz) x = flushed_single(x);
                   return to_integer(to, integral(x, m), from.bytes == 8);
                 }});
          }
}

void integers_to_floats() {
  for (const Integer &from : kIntegers)
    for (const Float &to : kFloats)
      for (const Rounding &r : kRoundings)
        for (bool ftz : {false, true})
          for (bool sat : {false, true}) {
            bool brain = &to == &kBF16;
            if ((ftz && &to != &kF32) || (sat && brain) || (brain && from.width == 8)) continue;
            add({std::string("cvt.") + r.name + (ftz ? ".ftz" : "") + (sat ? ".sat" : "") + "." +
                     to.name + "." + from.name,
                 to.kind,
                 {from.kind},
                 [=](uint64_t a, uint64_t, uint64_t) {
                   auto v = static_cast<long double>(value(from, a));  // 64 bits are exact
                   if (sat) v = v > 0 ? 1 : 0;
                   return v == 0 ? 0 : to.rounded(v, r.mode);
                 }});
          }
}

// Any NaN for another, where PTX leaves it open which one.
Accept same(const Float &to) {
  return [=](uint64_t got, uint64_t want) {
    return got == want || (std::isnan(to.value(got)) && std::isnan(to.value(want)));
  };
}

void floats() {
  struct Mode {
    std::string name;
    int rounding;
    bool to_integral;
  };
  for (const Float &to : kFloats)
    for (const Float &from : kFloats) {
      bool same_type = &to == &from, narrows = to.bytes < from.bytes;
      bool halves = to.bytes == 2 && from.bytes == 2 && !same_type;
      std::vector<Mode> modes;
      if (!narrows) modes.push_back({"", FE_TONEAREST, false});
      if (same_type)
        for (const char *mode : {"rni", "rzi", "rmi", "rpi"})
          modes.push_back({mode, FE_TONEAREST, true});
      if (narrows || halves || &from == &kBF16)
        for (const Rounding &r : kRoundings)
          if (!same_type) modes.push_back({r.name, r.mode, false});
      bool single = &to == &kF32 || &from == &kF32;
      for (const Mode &mode : modes)
        for (bool ftz : {false, true})
          for (bool sat : {false, true}) {
            if ((ftz && !single) || (sat && (&to == &kBF16 || &from == &kBF16))) continue;
            add({"cvt" + (mode.name.empty() ? "" : "." + mode.name) + (ftz ? ".ftz" : "") +
                     (sat ? ".sat" : "") + "." + to.name + "." + from.name,
                 to.kind,
                 {from.kind},
                 [=, &from, &to](uint64_t a, uint64_t, uint64_t) {
                   double x = from.value(a);
                   if (ftz && &from == &kF32) x = flushed_single(x);
                   if (mode.to_integral) x = integral(x, mode.name);
                   if (sat) x = clamped_value(x);
                   uint64_t result = to.rounded(x, mode.rounding);
                   if (ftz && &to == &kF32 && std::fabs(f32_value(result)) < 0x1p-126)
                     result &= 0x80000000;
                   return result;
                 },
                 same(to)});
          }
    }
}

// .relu and .satfinite, from f32: to one half, to a pair, and to tf32.
void limited_halves() {
  for (const Float *to : {&kF16, &kBF16})
    for (const char *round : {"rn", "rz"})
      for (bool relu : {false, true})
        for (bool finite : {false, true}) {
          int mode = round[1] == 'n' ? FE_TONEAREST : FE_TOWARDZERO;
          auto one = [=](uint64_t a) -> uint64_t {
            float x = as_float(a);
            if (std::isnan(x)) return 0x7fff;
            if (relu && std::signbit(x)) return 0;
            uint64_t r = to->rounded(x, mode);
            return finite && std::isinf(to->value(r)) ? r - 1 : r;
          };
          std::string head = std::string("cvt.") + round + (relu ? ".relu" : "") +
                             (finite ? ".satfinite." : ".") + to->name;
          if (relu || finite)
            add({head + ".f32", to->kind, {Kind::F32}, [=](uint64_t a, uint64_t, uint64_t) {
                   return one(a);
                 }});
          add({head + "x2.f32",
               to == &kF16 ? Kind::F16x2 : Kind::BF16x2,
               {Kind::F32, Kind::F32},
               [=](uint64_t a, uint64_t b, uint64_t) { return one(a) << 16 | one(b); }});
        }
  for (const char *round : {"rn", "rz", "rna"})
    for (bool relu : {false, true})
      for (bool finite : {false, true}) {
        if (relu && round[2]) continue;
        add({std::string("cvt.") + round + (relu ? ".relu" : "") + (finite ? ".satfinite" : "") +
                 ".tf32.f32",
             Kind::F32,
             {Kind::F32},
             [=](uint64_t a, uint64_t, uint64_t) -> uint64_t {
               float x = as_float(a);
               if (std::isnan(x)) return 0x7fffffff;
               if (relu && std::signbit(x)) return 0;
               uint64_t sign = a & 0x80000000, magnitude = a & 0x7fffffff;
               if (std::isinf(x)) return sign | (finite ? 0x7f7fe000 : 0x7f800000);
               // Neighbours with ten bits of mantissa; the upper one may be infinite.
               uint64_t low = magnitude & ~uint64_t{0x1fff}, high = low + 0x2000;
               uint64_t below = magnitude - low, above = high - magnitude;
               bool up = round[1] == 'z'  ? false
                         : below == above ? round[2] == 'a' || (low & 0x2000)
                                          : below > above;
               uint64_t r = up ? high : low;
               return sign | (finite && r == 0x7f800000 ? 0x7f7fe000 : r);
             }});
      }
}

// cvt.pack: both saturated, side by side; c above them.
void packed_integers() {
  struct Small {
    const char *name;
    int width;
    bool is_signed;
  };
  for (const Small &t : {Small{"u16", 16, false},
                         {"s16", 16, true},
                         {"u8", 8, false},
                         {"s8", 8, true},
                         {"u4", 4, false},
                         {"s4", 4, true},
                         {"u2", 2, false},
                         {"s2", 2, true}}) {
    int64_t most = (int64_t{1} << (t.width - t.is_signed)) - 1, least = t.is_signed ? -most - 1 : 0;
    uint64_t mask = (uint64_t{1} << t.width) - 1;
    auto one = [=](uint64_t a) {
      return static_cast<uint64_t>(std::clamp<int64_t>(static_cast<int32_t>(a), least, most)) &
             mask;
    };
    std::string name = std::string("cvt.pack.sat.") + t.name + ".s32";
    if (t.width == 16)
      add({name, Kind::B32, {Kind::S32, Kind::S32}, [=](uint64_t a, uint64_t b, uint64_t) {
             return one(a) << 16 | one(b);
           }});
    else
      add({name + ".b32",
           Kind::B32,
           {Kind::S32, Kind::S32, Kind::B32},
           [=](uint64_t a, uint64_t b, uint64_t c) {
             return c << (2 * t.width) | one(a) << t.width | one(b);
           }});
  }
}

}  // namespace

void convert_cases() {
  integers();
  floats_to_integers();
  integers_to_floats();
  floats();
  limited_halves();
  packed_integers();
}

}  // namespace harness
