#include <functional>

#include "reference.h"

namespace harness {
namespace {

// less, equal, greater, unordered -> does the comparison hold
struct Compare {
  const char *name;
  bool less, equal, greater, unordered;
};
const Compare kFloat[] = {
    {"eq", 0, 1, 0, 0},  {"ne", 1, 0, 1, 0},  {"lt", 1, 0, 0, 0},  {"le", 1, 1, 0, 0},
    {"gt", 0, 0, 1, 0},  {"ge", 0, 1, 1, 0},  {"equ", 0, 1, 0, 1}, {"neu", 1, 0, 1, 1},
    {"ltu", 1, 0, 0, 1}, {"leu", 1, 1, 0, 1}, {"gtu", 0, 0, 1, 1}, {"geu", 0, 1, 1, 1},
    {"num", 1, 1, 1, 0}, {"nan", 0, 0, 0, 1},
};

bool holds(const Compare &compare, double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return compare.unordered;
  return a < b ? compare.less : a > b ? compare.greater : compare.equal;
}
bool holds(const Compare &compare, __int128 a, __int128 b) {
  return a < b ? compare.less : a > b ? compare.greater : compare.equal;
}

struct Integer {
  const char *name;
  Kind kind;
  unsigned width;
  bool is_signed;
};

__int128 value(const Integer &t, uint64_t raw) {
  __int128 v = raw;
  if (t.is_signed && (v >> (t.width - 1)) & 1) v -= static_cast<__int128>(1) << t.width;
  return v;
}

void floats(const std::string &type, Kind kind, const std::function<double(uint64_t)> &value) {
  for (const Compare &compare : kFloat) {
    add({std::string("setp.") + compare.name + type,
         Kind::P,
         {kind, kind},
         [=](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
           return holds(compare, value(a), value(b));
         }});
  }
}

}  // namespace

void compare_cases() {
  const Integer integers[] = {{"u16", Kind::U16, 16, false}, {"s16", Kind::S16, 16, true},
                              {"u32", Kind::U32, 32, false}, {"s32", Kind::S32, 32, true},
                              {"u64", Kind::U64, 64, false}, {"s64", Kind::S64, 64, true}};
  for (const Integer &t : integers)
    for (int i = 0; i < 6; ++i) {
      const Compare &compare = kFloat[i];
      add({std::string("setp.") + compare.name + "." + t.name,
           Kind::P,
           {t.kind, t.kind},
           [=](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
             return holds(compare, value(t, a), value(t, b));
           }});
      if (t.is_signed) continue;
      if (i < 2)
        add({std::string("setp.") + compare.name + ".b" + std::to_string(t.width),
             Kind::P,
             {t.kind, t.kind},
             [=](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
               return holds(compare, value(t, a), value(t, b));
             }});
    }
  for (auto [name, index] : {std::pair{"lo", 2}, {"ls", 3}, {"hi", 4}, {"hs", 5}})
    add({std::string("setp.") + name + ".u32",
         Kind::P,
         {Kind::U32, Kind::U32},
         [index = index](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
           return holds(kFloat[index], static_cast<__int128>(a), static_cast<__int128>(b));
         }});
  floats(".f32", Kind::F32, [](uint64_t a) -> double { return as_float(a); });
  floats(".ftz.f32", Kind::F32, [](uint64_t a) -> double { return flushed(as_float(a)); });
  floats(".f64", Kind::F64, [](uint64_t a) { return as_double(a); });
  floats(".f16", Kind::F16, [](uint64_t a) { return SmallFormat::f16().value(a); });
  floats(".bf16", Kind::BF16, [](uint64_t a) { return SmallFormat::bf16().value(a); });

  // Two results, and a third operand: p = (a < b) op c, q = !(a < b) op c.
  for (int op = 0; op < 3; ++op) {
    const char *names[] = {"and", "or", "xor"};
    auto combine = [op](bool x, bool c) { return op == 0 ? x && c : op == 1 ? x || c : x != c; };
    for (bool invert : {false, true}) {
      std::string c = invert ? "!$c" : "$c";
      std::string text = std::string("{ .reg .pred q; .reg .b32 x, y; setp.lt.") + names[op] +
                         ".s32 $d|q, $a, $b, " + c + "; selp.b32 x, 1, 0, $d; selp.b32 y, 1, 0, q;";
      auto less = [](uint64_t a, uint64_t b) {
        return static_cast<int32_t>(a) < static_cast<int32_t>(b);
      };
      add({text + "}",
           Kind::P,
           {Kind::S32, Kind::S32, Kind::P},
           [=](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
             return combine(less(a, b), (c != 0) != invert);
           }});
      add({text + " setp.eq.b32 $d, y, 1; }",
           Kind::P,
           {Kind::S32, Kind::S32, Kind::P},
           [=](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
             return combine(!less(a, b), (c != 0) != invert);
           }});
    }
  }
  add({"set.lt.u32.s32", Kind::U32, {Kind::S32, Kind::S32}, [](uint64_t a, uint64_t b, uint64_t) {
         return static_cast<int32_t>(a) < static_cast<int32_t>(b) ? 0xffffffffu : 0u;
       }});
  add({"set.gt.f32.f32", Kind::F32, {Kind::F32, Kind::F32}, [](uint64_t a, uint64_t b, uint64_t) {
         return as_float(a) > as_float(b) ? bits(1.0f) : 0;
       }});
  add({"set.eq.f16.f16",
       Kind::F16,
       {Kind::F16, Kind::F16},
       [](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
         return SmallFormat::f16().value(a) == SmallFormat::f16().value(b) ? 0x3c00 : 0;
       }});
  struct Test {
    const char *name;
    bool (*f)(double, int);
  };
  const Test tests[] = {
      {"finite", [](double x, int) { return std::isfinite(x); }},
      {"infinite", [](double x, int) { return std::isinf(x); }},
      {"number", [](double x, int) { return !std::isnan(x); }},
      {"notanumber", [](double x, int) { return std::isnan(x); }},
      {"normal", [](double, int c) { return c == FP_NORMAL || c == FP_ZERO; }},
      {"subnormal", [](double, int c) { return c == FP_SUBNORMAL; }},
  };
  for (const Test &test : tests) {
    add({std::string("testp.") + test.name + ".f32",
         Kind::P,
         {Kind::F32},
         [=](uint64_t a, uint64_t, uint64_t) -> uint64_t {
           return test.f(as_float(a), std::fpclassify(as_float(a)));
         }});
    add({std::string("testp.") + test.name + ".f64",
         Kind::P,
         {Kind::F64},
         [=](uint64_t a, uint64_t, uint64_t) -> uint64_t {
           return test.f(as_double(a), std::fpclassify(as_double(a)));
         }});
  }
}

}  // namespace harness
