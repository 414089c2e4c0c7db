#include <functional>
#include <vector>

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

struct Source {
  std::string type;  // with .ftz where it applies
  Kind kind;
  // Of two halves of a pair, or both the same.
  std::function<bool(const Compare &, uint64_t, uint64_t)> low, high;
  int comparisons;  // of kFloat that there are
};

std::vector<Source> sources() {
  std::vector<Source> all;
  const Integer integers[] = {{"u16", Kind::U16, 16, false}, {"s16", Kind::S16, 16, true},
                              {"u32", Kind::U32, 32, false}, {"s32", Kind::S32, 32, true},
                              {"u64", Kind::U64, 64, false}, {"s64", Kind::S64, 64, true}};
  for (const Integer &t : integers) {
    auto f = [=](const Compare &c, uint64_t a, uint64_t b) {
      return holds(c, value(t, a), value(t, b));
    };
    all.push_back({std::string(".") + t.name, t.kind, f, f, 6});
    if (!t.is_signed) all.push_back({".b" + std::to_string(t.width), t.kind, f, f, 2});
  }
  using Value = std::function<double(uint64_t)>;
  auto floats = [&](const std::string &type, Kind kind, Value v) {
    auto f = [=](const Compare &c, uint64_t a, uint64_t b) { return holds(c, v(a), v(b)); };
    all.push_back({type, kind, f, f, 14});
  };
  auto pairs = [&](const std::string &type, Kind kind, Value v) {
    auto low = [=](const Compare &c, uint64_t a, uint64_t b) {
      return holds(c, v(a & 0xffff), v(b & 0xffff));
    };
    auto high = [=](const Compare &c, uint64_t a, uint64_t b) {
      return holds(c, v(a >> 16), v(b >> 16));
    };
    all.push_back({type, kind, low, high, 14});
  };
  Value f16 = [](uint64_t a) { return SmallFormat::f16().value(a); };
  Value flushed_f16 = [](uint64_t a) {
    double x = SmallFormat::f16().value(a);
    return std::fabs(x) < 0x1p-14 ? 0.0 : x;
  };
  Value bf16 = [](uint64_t a) { return SmallFormat::bf16().value(a); };
  floats(".f32", Kind::F32, [](uint64_t a) -> double { return as_float(a); });
  floats(".ftz.f32", Kind::F32, [](uint64_t a) -> double { return flushed(as_float(a)); });
  floats(".f64", Kind::F64, [](uint64_t a) { return as_double(a); });
  floats(".f16", Kind::F16, f16);
  floats(".ftz.f16", Kind::F16, flushed_f16);
  floats(".bf16", Kind::BF16, bf16);
  pairs(".f16x2", Kind::F16x2, f16);
  pairs(".ftz.f16x2", Kind::F16x2, flushed_f16);
  pairs(".bf16x2", Kind::BF16x2, bf16);
  return all;
}

bool is_pair(const Source &s) { return s.kind == Kind::F16x2 || s.kind == Kind::BF16x2; }

const char *const kBooleans[] = {"", ".and", ".or", ".xor"};
bool combined(int boolean, bool x, bool c) {
  return boolean == 0 ? x : boolean == 1 ? x && c : boolean == 2 ? x || c : x != c;
}

// The unsigned comparisons by their old names.
const std::pair<const char *, int> kUnsigned[] = {{"lo", 2}, {"ls", 3}, {"hi", 4}, {"hs", 5}};

// setp.cmp.bool p|q: both results in one number; of a pair, q is that of the upper half. c is the
// third operand.
void setp(const Source &s, const Compare &compare, const char *name, int boolean) {
  std::string form = std::string("setp.") + name + kBooleans[boolean] + s.type;
  for (bool negated : {false, true}) {
    if (negated && !boolean) continue;
    std::string third = boolean ? std::string(", ") + (negated ? "!" : "") + "$c" : "";
    std::vector<Kind> kinds = {s.kind, s.kind};
    if (boolean) kinds.push_back(Kind::P);
    auto p = [=](uint64_t a, uint64_t b, uint64_t c) {
      return combined(boolean, s.low(compare, a, b), (c != 0) != negated);
    };
    auto q = [=](uint64_t a, uint64_t b, uint64_t c) {
      bool second = is_pair(s) ? s.high(compare, a, b) : !s.low(compare, a, b);
      return combined(boolean, second, (c != 0) != negated);
    };
    add({form + " $d, $a, $b" + third, Kind::P, kinds,
         [=](uint64_t a, uint64_t b, uint64_t c) -> uint64_t { return p(a, b, c); }});
    add({"{ .reg .pred p, q; .reg .b32 x; " + form + " p|q, $a, $b" + third +
             "; selp.b32 $d, 1, 0, p; selp.b32 x, 2, 0, q; or.b32 $d, $d, x; }",
         Kind::U32,
         kinds,
         [=](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
           return static_cast<uint64_t>(p(a, b, c)) | static_cast<uint64_t>(q(a, b, c)) << 1;
         },
         nullptr,
         {},
         0,
         0,
         form});
  }
  if (boolean) return;
  add({"{ .reg .pred q; " + form + " _|q, $a, $b; mov.pred $d, q; }",
       Kind::P,
       {s.kind, s.kind},
       [=](uint64_t a, uint64_t b, uint64_t) -> uint64_t {
         return is_pair(s) ? s.high(compare, a, b) : !s.low(compare, a, b);
       },
       nullptr,
       {},
       0,
       0,
       form});
}

struct Result {
  const char *type;
  Kind kind;
  uint64_t yes;
};

void set(const Source &s, const Result &d, const Compare &compare, const char *name, int boolean) {
  // .ftz stands before both types.
  bool ftz = s.type.compare(0, 4, ".ftz") == 0;
  std::string form = std::string("set.") + name + kBooleans[boolean] + (ftz ? ".ftz" : "") +
                     d.type + (ftz ? s.type.substr(4) : s.type);
  std::vector<Kind> kinds = {s.kind, s.kind};
  if (boolean) kinds.push_back(Kind::P);
  for (bool negated : {false, true}) {
    if (negated && !boolean) continue;
    add({form + " $d, $a, $b" + (boolean ? std::string(", ") + (negated ? "!" : "") + "$c" : ""),
         d.kind, kinds, [=](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
           bool third = (c != 0) != negated;
           bool low = combined(boolean, s.low(compare, a, b), third);
           bool high = combined(boolean, s.high(compare, a, b), third);
           if (!is_pair(s)) return low ? d.yes : 0;
           return (low ? d.yes & 0xffff : 0) | (high ? d.yes & 0xffff0000 : 0);
         }});
  }
}

}  // namespace

void set_cases() {
  const Result words[] = {{".u32", Kind::U32, 0xffffffff},
                          {".s32", Kind::S32, 0xffffffff},
                          {".f32", Kind::F32, 0x3f800000}};
  const Result halves[] = {{".f16", Kind::F16, 0x3c00},
                           {".bf16", Kind::BF16, 0x3f80},
                           {".u16", Kind::U16, 0xffff},
                           {".s16", Kind::S16, 0xffff}};
  for (const Source &s : sources()) {
    std::vector<Result> results(std::begin(words), std::end(words));
    bool half = s.kind == Kind::F16 || s.kind == Kind::BF16;
    results.insert(results.end(), std::begin(halves), half ? std::end(halves) : halves + 2);
    if (is_pair(s)) {
      results.resize(2);
      if (s.kind == Kind::F16x2) results.push_back({".f16x2", Kind::F16x2, 0x3c003c00});
      if (s.kind == Kind::BF16x2) results.push_back({".bf16x2", Kind::BF16x2, 0x3f803f80});
    }
    for (const Result &d : results)
      for (int boolean = 0; boolean < 4; ++boolean) {
        for (int i = 0; i < s.comparisons; ++i) set(s, d, kFloat[i], kFloat[i].name, boolean);
        if (s.type[1] == 'u')
          for (auto [name, i] : kUnsigned) set(s, d, kFloat[i], name, boolean);
      }
  }
}

void compare_cases() {
  for (const Source &s : sources())
    for (int boolean = 0; boolean < 4; ++boolean) {
      for (int i = 0; i < s.comparisons; ++i) setp(s, kFloat[i], kFloat[i].name, boolean);
      if (s.type[1] == 'u')
        for (auto [name, i] : kUnsigned) setp(s, kFloat[i], name, boolean);
    }
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
