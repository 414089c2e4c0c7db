#include <bit>

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
  if (std::isnan(x)) return from_double && to.width == 64 ? uint64_t{1} << 63 : 0;
  if (x >= std::ldexp(1.0, 100)) return extended(to, highest(to));
  if (x <= -std::ldexp(1.0, 100)) return extended(to, lowest(to));
  return extended(to, limited(to, static_cast<__int128>(x)));
}

void floats_to_integers() {
  for (const Integer &to : kIntegers)
    for (const char *mode : {"rni", "rzi", "rmi", "rpi"}) {
      std::string m = mode;
      std::string head = std::string("cvt.") + mode;
      std::string tail = std::string(".") + to.name;
      add({head + tail + ".f32", to.kind, {Kind::F32}, [=](uint64_t a, uint64_t, uint64_t) {
             return to_integer(to, integral(as_float(a), m), false);
           }});
      add({head + ".ftz" + tail + ".f32",
           to.kind,
           {Kind::F32},
           [=](uint64_t a, uint64_t, uint64_t) {
             return to_integer(to, integral(flushed(as_float(a)), m), false);
           }});
      add({head + ".sat" + tail + ".f64",
           to.kind,
           {Kind::F64},
           [=](uint64_t a, uint64_t, uint64_t) {
             return to_integer(to, integral(as_double(a), m), true);
           }});
      add({head + tail + ".f16", to.kind, {Kind::F16}, [=](uint64_t a, uint64_t, uint64_t) {
             return to_integer(to, integral(SmallFormat::f16().value(a), m), false);
           }});
      add({head + tail + ".bf16", to.kind, {Kind::BF16}, [=](uint64_t a, uint64_t, uint64_t) {
             return to_integer(to, integral(SmallFormat::bf16().value(a), m), false);
           }});
    }
}

template <class F>
F converted(const Integer &from, uint64_t raw, int mode) {
  return under(mode, [&] {
    volatile F result;
    if (from.is_signed) {
      volatile int64_t v = static_cast<int64_t>(value(from, raw));
      result = static_cast<F>(static_cast<long double>(v));
    } else {
      volatile uint64_t v = static_cast<uint64_t>(value(from, raw));
      result = static_cast<F>(static_cast<long double>(v));
    }
    return static_cast<F>(result);
  });
}

void integers_to_floats() {
  for (const Integer &from : kIntegers)
    for (const Rounding &r : kRoundings) {
      std::string head = std::string("cvt.") + r.name, tail = std::string(".") + from.name;
      add({head + ".f32" + tail, Kind::F32, {from.kind}, [=](uint64_t a, uint64_t, uint64_t) {
             return bits(converted<float>(from, a, r.mode));
           }});
      add({head + ".f64" + tail, Kind::F64, {from.kind}, [=](uint64_t a, uint64_t, uint64_t) {
             return bits(converted<double>(from, a, r.mode));
           }});
      for (bool brain : {false, true})
        add({head + (brain ? ".bf16" : ".f16") + tail,
             brain ? Kind::BF16 : Kind::F16,
             {from.kind},
             [=](uint64_t a, uint64_t, uint64_t) {
               const SmallFormat &format = brain ? SmallFormat::bf16() : SmallFormat::f16();
               auto v = static_cast<long double>(value(from, a));  // 64 bits are exact
               return v == 0 ? 0 : format.round(v, r.mode);
             }});
    }
}

void floats() {
  for (const Rounding &r : kRoundings) {
    std::string head = std::string("cvt.") + r.name;
    for (bool ftz : {false, true})
      for (bool sat : {false, true})
        add({head + (ftz ? ".ftz" : "") + (sat ? ".sat" : "") + ".f32.f64",
             Kind::F32,
             {Kind::F64},
             [=](uint64_t a, uint64_t, uint64_t) -> uint64_t {
               volatile double x = as_double(a);
               float y = under(r.mode, [&] { return static_cast<float>(x); });
               if (ftz) y = flushed(y);
               if (sat) y = clamped(y);
               return std::isnan(y) ? 0x7fffffff : bits(y);
             }});
    for (bool brain : {false, true}) {
      Kind kind = brain ? Kind::BF16 : Kind::F16;
      std::string type = brain ? ".bf16" : ".f16";
      auto format = [=]() -> const SmallFormat & {
        return brain ? SmallFormat::bf16() : SmallFormat::f16();
      };
      add({head + type + ".f32", kind, {Kind::F32}, [=](uint64_t a, uint64_t, uint64_t) {
             return format().round(as_float(a), r.mode);
           }});
      add({head + type + ".f64", kind, {Kind::F64}, [=](uint64_t a, uint64_t, uint64_t) {
             return format().round(as_double(a), r.mode);
           }});
      if (r.mode == FE_TONEAREST || r.mode == FE_TOWARDZERO) {
        add({head + type + "x2.f32",
             brain ? Kind::BF16x2 : Kind::F16x2,
             {Kind::F32, Kind::F32},
             [=](uint64_t a, uint64_t b, uint64_t) {
               return format().round(as_float(a), r.mode) << 16 |
                      format().round(as_float(b), r.mode);
             }});
        add({head + ".relu" + type + ".f32",
             kind,
             {Kind::F32},
             [=](uint64_t a, uint64_t, uint64_t) -> uint64_t {
               float x = as_float(a);
               return x <= 0 ? 0 : format().round(x, r.mode);
             }});
      }
    }
  }
  for (bool ftz : {false, true})
    add({ftz ? "cvt.ftz.f64.f32" : "cvt.f64.f32",
         Kind::F64,
         {Kind::F32},
         [=](uint64_t a, uint64_t, uint64_t) {
           float x = as_float(a);
           return bits(static_cast<double>(ftz ? flushed(x) : x));
         },
         same_double});
  add({"cvt.f32.f16",
       Kind::F32,
       {Kind::F16},
       [](uint64_t a, uint64_t, uint64_t) {
         return bits(static_cast<float>(SmallFormat::f16().value(a)));
       },
       same_float});
  add({"cvt.f32.bf16",
       Kind::F32,
       {Kind::BF16},
       [](uint64_t a, uint64_t, uint64_t) {
         return bits(static_cast<float>(SmallFormat::bf16().value(a)));
       },
       same_float});
  add({"cvt.f64.f16",
       Kind::F64,
       {Kind::F16},
       [](uint64_t a, uint64_t, uint64_t) { return bits(SmallFormat::f16().value(a)); },
       same_double});
  for (const char *mode : {"rni", "rzi", "rmi", "rpi"}) {
    std::string m = mode;
    add({"cvt." + m + ".f32.f32",
         Kind::F32,
         {Kind::F32},
         [=](uint64_t a, uint64_t, uint64_t) {
           return bits(static_cast<float>(integral(as_float(a), m)));
         },
         same_float});
    add({"cvt." + m + ".ftz.sat.f32.f32",
         Kind::F32,
         {Kind::F32},
         [=](uint64_t a, uint64_t, uint64_t) {
           return bits(clamped(static_cast<float>(integral(flushed(as_float(a)), m))));
         },
         same_float});
    add({"cvt." + m + ".f64.f64",
         Kind::F64,
         {Kind::F64},
         [=](uint64_t a, uint64_t, uint64_t) { return bits(integral(as_double(a), m)); },
         same_double});
    add({"cvt." + m + ".f16.f16", Kind::F16, {Kind::F16}, [=](uint64_t a, uint64_t, uint64_t) {
           double x = integral(SmallFormat::f16().value(a), m);
           return SmallFormat::f16().round(x, FE_TONEAREST);
         }});
  }
  add({"cvt.sat.f32.f32",
       Kind::F32,
       {Kind::F32},
       [](uint64_t a, uint64_t, uint64_t) { return bits(clamped(as_float(a))); },
       [](uint64_t got, uint64_t want) { return as_float(got) == as_float(want); }});
}

}  // namespace

void convert_cases() {
  integers();
  floats_to_integers();
  integers_to_floats();
  floats();
}

}  // namespace harness
