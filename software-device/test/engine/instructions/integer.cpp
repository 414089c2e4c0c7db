// Integer arithmetic and logic, by __int128.
#include <algorithm>
#include <cmath>
#include <string>

#include "harness.h"

namespace harness {
namespace {

using Wide = __int128;

struct Type {
  const char *name;
  Kind kind;
  unsigned width;
  bool is_signed;
};
const Type kTypes[] = {{"u16", Kind::U16, 16, false}, {"s16", Kind::S16, 16, true},
                       {"u32", Kind::U32, 32, false}, {"s32", Kind::S32, 32, true},
                       {"u64", Kind::U64, 64, false}, {"s64", Kind::S64, 64, true}};

Wide value(const Type &type, uint64_t raw) {
  Wide v = raw & (type.width == 64 ? ~uint64_t{0} : (uint64_t{1} << type.width) - 1);
  if (type.is_signed && (v >> (type.width - 1)) & 1) v -= Wide{1} << type.width;
  return v;
}
uint64_t wrap(Wide v) { return static_cast<uint64_t>(v); }

Wide saturated(Wide v) { return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : v; }

template <class F>
void binary(const Type &t, const std::string &op, F f) {
  add({op + "." + t.name, t.kind, {t.kind, t.kind}, [=](uint64_t a, uint64_t b, uint64_t) {
         return wrap(f(value(t, a), value(t, b)));
       }});
}

void arithmetic() {
  for (const Type &t : kTypes) {
    binary(t, "add", [](Wide a, Wide b) { return a + b; });
    binary(t, "sub", [](Wide a, Wide b) { return a - b; });
    binary(t, "min", [](Wide a, Wide b) { return a < b ? a : b; });
    binary(t, "max", [](Wide a, Wide b) { return a > b ? a : b; });
    binary(t, "mul.lo", [](Wide a, Wide b) {
      return static_cast<Wide>(static_cast<unsigned __int128>(a) *
                               static_cast<unsigned __int128>(b));
    });
    binary(t, "mul.hi", [t](Wide a, Wide b) -> Wide {
      if (t.width == 64 && !t.is_signed)
        return static_cast<Wide>(
            (static_cast<unsigned __int128>(a) * static_cast<unsigned __int128>(b)) >> 64);
      return (a * b) >> t.width;
    });
    // Division by zero is undefined in PTX; ours is stable and tested to be so.
    binary(t, "div", [](Wide a, Wide b) { return b == 0 ? Wide{-1} : a / b; });
    binary(t, "rem", [](Wide a, Wide b) { return b == 0 ? a : a % b; });
    if (t.is_signed) {
      add({std::string("neg.") + t.name, t.kind, {t.kind}, [=](uint64_t a, uint64_t, uint64_t) {
             return wrap(-value(t, a));
           }});
      add({std::string("abs.") + t.name, t.kind, {t.kind}, [=](uint64_t a, uint64_t, uint64_t) {
             Wide v = value(t, a);
             return wrap(v < 0 ? -v : v);
           }});
    }
    add({std::string("mad.lo.") + t.name,
         t.kind,
         {t.kind, t.kind, t.kind},
         [=](uint64_t a, uint64_t b, uint64_t c) { return a * b + c; }});
    add({std::string("mad.hi.") + t.name,
         t.kind,
         {t.kind, t.kind, t.kind},
         [=](uint64_t a, uint64_t b, uint64_t c) -> uint64_t {
           Wide high;
           if (t.width == 64 && !t.is_signed)
             high = static_cast<Wide>((static_cast<unsigned __int128>(a) * b) >> 64);
           else
             high = (value(t, a) * value(t, b)) >> t.width;
           return wrap(high) + c;
         }});
    add({std::string("sad.") + t.name,
         t.kind,
         {t.kind, t.kind, t.kind},
         [=](uint64_t a, uint64_t b, uint64_t c) {
           Wide x = value(t, a), y = value(t, b);
           return wrap((x < y ? y - x : x - y) + static_cast<Wide>(c));
         }});
    if (t.width < 64) {
      Type wide = t;
      Kind to = t.width == 16 ? (t.is_signed ? Kind::S32 : Kind::U32)
                              : (t.is_signed ? Kind::S64 : Kind::U64);
      add({std::string("mul.wide.") + t.name,
           to,
           {t.kind, t.kind},
           [=](uint64_t a, uint64_t b, uint64_t) {
             return wrap(value(wide, a) * value(wide, b));
           }});
      add({std::string("mad.wide.") + t.name,
           to,
           {t.kind, t.kind, to},
           [=](uint64_t a, uint64_t b, uint64_t c) {
             return wrap(value(wide, a) * value(wide, b)) + c;
           }});
    }
  }
  const Type &s32 = kTypes[3];
  add({"add.sat.s32", Kind::S32, {Kind::S32, Kind::S32}, [&](uint64_t a, uint64_t b, uint64_t) {
         return wrap(saturated(value(s32, a) + value(s32, b)));
       }});
  add({"sub.sat.s32", Kind::S32, {Kind::S32, Kind::S32}, [&](uint64_t a, uint64_t b, uint64_t) {
         return wrap(saturated(value(s32, a) - value(s32, b)));
       }});
  add({"mad.hi.sat.s32",
       Kind::S32,
       {Kind::S32, Kind::S32, Kind::S32},
       [&](uint64_t a, uint64_t b, uint64_t c) {
         return wrap(saturated(((value(s32, a) * value(s32, b)) >> 32) + value(s32, c)));
       }});
}

Wide low24(uint64_t raw, bool is_signed) {
  Wide v = raw & 0xffffff;
  return is_signed && (v >> 23) ? v - (1 << 24) : v;
}

void narrow_products() {
  for (bool s : {false, true}) {
    const Type &t = kTypes[s ? 3 : 2];
    for (bool high : {false, true}) {
      std::string suffix = std::string(high ? ".hi." : ".lo.") + t.name;
      add({"mul24" + suffix, t.kind, {t.kind, t.kind}, [=](uint64_t a, uint64_t b, uint64_t) {
             return wrap((low24(a, s) * low24(b, s)) >> (high ? 16 : 0));
           }});
      add({"mad24" + suffix,
           t.kind,
           {t.kind, t.kind, t.kind},
           [=](uint64_t a, uint64_t b, uint64_t c) {
             return wrap((low24(a, s) * low24(b, s)) >> (high ? 16 : 0)) + c;
           }});
    }
  }
  const Type &s32 = kTypes[3];
  add({"mad24.hi.sat.s32",
       Kind::S32,
       {Kind::S32, Kind::S32, Kind::S32},
       [&](uint64_t a, uint64_t b, uint64_t c) {
         return wrap(saturated(((low24(a, true) * low24(b, true)) >> 16) + value(s32, c)));
       }});
  for (bool sa : {false, true}) {
    for (bool sb : {false, true}) {
      Kind result = sa || sb ? Kind::S32 : Kind::U32;
      std::string types = std::string(sa ? ".s32" : ".u32") + (sb ? ".s32" : ".u32");
      auto part = [](uint64_t raw, unsigned at, unsigned width, bool is_signed) -> Wide {
        Wide v = (raw >> at) & ((1u << width) - 1);
        return is_signed && (v >> (width - 1)) ? v - (Wide{1} << width) : v;
      };
      add({"dp4a" + types,
           result,
           {Kind::B32, Kind::B32, Kind::B32},
           [=](uint64_t a, uint64_t b, uint64_t c) {
             Wide sum = static_cast<Wide>(c);
             for (unsigned k = 0; k < 4; ++k) sum += part(a, 8 * k, 8, sa) * part(b, 8 * k, 8, sb);
             return wrap(sum);
           }});
      for (bool high : {false, true})
        add({std::string("dp2a.") + (high ? "hi" : "lo") + types,
             result,
             {Kind::B32, Kind::B32, Kind::B32},
             [=](uint64_t a, uint64_t b, uint64_t c) {
               Wide sum = static_cast<Wide>(c);
               for (unsigned k = 0; k < 2; ++k)
                 sum += part(a, 16 * k, 16, sa) * part(b, (high ? 16 : 0) + 8 * k, 8, sb);
               return wrap(sum);
             }});
    }
  }
}

void logic() {
  struct Untyped {
    const char *name;
    Kind kind;
  };
  for (const Untyped &t : {Untyped{"b16", Kind::B16}, {"b32", Kind::B32}, {"b64", Kind::B64}}) {
    std::string dot = std::string(".") + t.name;
    unsigned width = t.kind == Kind::B16 ? 16 : t.kind == Kind::B32 ? 32 : 64;
    add({"and" + dot, t.kind, {t.kind, t.kind}, [](uint64_t a, uint64_t b, uint64_t) {
           return a & b;
         }});
    add({"or" + dot, t.kind, {t.kind, t.kind}, [](uint64_t a, uint64_t b, uint64_t) {
           return a | b;
         }});
    add({"xor" + dot, t.kind, {t.kind, t.kind}, [](uint64_t a, uint64_t b, uint64_t) {
           return a ^ b;
         }});
    add({"not" + dot, t.kind, {t.kind}, [](uint64_t a, uint64_t, uint64_t) { return ~a; }});
    add({"cnot" + dot, t.kind, {t.kind}, [](uint64_t a, uint64_t, uint64_t) -> uint64_t {
           return a == 0;
         }});
    add({"shl" + dot, t.kind, {t.kind, Kind::U32}, [=](uint64_t a, uint64_t n, uint64_t) {
           return n >= width ? 0 : a << n;
         }});
    add({"shr" + dot, t.kind, {t.kind, Kind::U32}, [=](uint64_t a, uint64_t n, uint64_t) {
           return n >= width ? 0 : a >> n;
         }});
  }
  for (const Type &t : kTypes) {
    if (!t.is_signed)
      add({std::string("shr.") + t.name,
           t.kind,
           {t.kind, Kind::U32},
           [=](uint64_t a, uint64_t n, uint64_t) { return n >= t.width ? 0 : a >> n; }});
    if (!t.is_signed) continue;
    add({std::string("shr.") + t.name,
         t.kind,
         {t.kind, Kind::U32},
         [=](uint64_t a, uint64_t n, uint64_t) {
           return wrap(value(t, a) >> (n >= t.width ? t.width - 1 : n));
         }});
  }
  add({"and.pred", Kind::P, {Kind::P, Kind::P}, [](uint64_t a, uint64_t b, uint64_t) {
         return a & b;
       }});
  add({"or.pred", Kind::P, {Kind::P, Kind::P}, [](uint64_t a, uint64_t b, uint64_t) {
         return a | b;
       }});
  add({"xor.pred", Kind::P, {Kind::P, Kind::P}, [](uint64_t a, uint64_t b, uint64_t) {
         return a ^ b;
       }});
  add({"not.pred", Kind::P, {Kind::P}, [](uint64_t a, uint64_t, uint64_t) { return a ^ 1; }});
  add({"mov.pred", Kind::P, {Kind::P}, [](uint64_t a, uint64_t, uint64_t) { return a; }});
  // A guarded instruction leaves the lanes alone whose predicate is false.
  add({"@$b add.s32 $d, $a, 1",
       Kind::S32,
       {Kind::S32, Kind::P},
       [](uint64_t a, uint64_t p, uint64_t) { return p ? a + 1 : 0x1234; }});
  add({"@!$b add.s32 $d, $a, 1",
       Kind::S32,
       {Kind::S32, Kind::P},
       [](uint64_t a, uint64_t p, uint64_t) { return p ? 0x1234 : a + 1; }});
}

// Chains: 64-bit arithmetic from 32-bit instructions, and 128-bit from 64-bit ones.
void carries() {
  const char *split = "{ .reg .b32 al, ah, bl, bh; mov.b64 {al, ah}, $a; mov.b64 {bl, bh}, $b; ";
  // Their text proves the forms in carry_forms().
  add({std::string(split) + "add.cc.u32 al, al, bl; addc.u32 ah, ah, bh; mov.b64 $d, {al, ah}; }",
       Kind::U64,
       {Kind::U64, Kind::U64},
       [](uint64_t a, uint64_t b, uint64_t) { return a + b; }});
  add({std::string(split) + "sub.cc.s32 al, al, bl; subc.s32 ah, ah, bh; mov.b64 $d, {al, ah}; }",
       Kind::U64,
       {Kind::U64, Kind::U64},
       [](uint64_t a, uint64_t b, uint64_t) { return a - b; }});
  add({"{ .reg .b64 x; add.cc.u64 x, $a, $b; addc.cc.u64 $d, $a, 0; }",
       Kind::U64,
       {Kind::U64, Kind::U64},
       [](uint64_t a, uint64_t b, uint64_t) {
         return a + static_cast<uint64_t>((static_cast<unsigned __int128>(a) + b) >> 64);
       }});
  // a * b + c, the upper 64 bits of 128
  add({"{ .reg .b64 x; mad.lo.cc.u64 x, $a, $b, $c; madc.hi.u64 $d, $a, $b, 0; }",
       Kind::U64,
       {Kind::U64, Kind::U64, Kind::U64},
       [](uint64_t a, uint64_t b, uint64_t c) {
         return static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b + c) >> 64);
       }});
  add({std::string(split) +
           "mad.lo.cc.u32 al, al, bl, ah; madc.hi.cc.u32 ah, ah, bl, bh; addc.u32 bl, 0, 0;"
           " mov.b64 $d, {ah, bl}; }",
       Kind::U64,
       {Kind::U64, Kind::U64},
       [](uint64_t a, uint64_t b, uint64_t) {
         uint64_t al = a & 0xffffffff, ah = a >> 32, bl = b & 0xffffffff, bh = b >> 32;
         uint64_t low = (al * bl & 0xffffffff) + ah;
         uint64_t high = ((ah * bl) >> 32) + bh + (low >> 32);
         return high;
       }});
}

// Every form that reads or writes the carry: the flag is set from a bit of c beforehand, and what
// it is afterwards is mixed into the result.
void carry_forms() {
  constexpr uint64_t kMark = 0x9e3779b97f4a7c15;
  for (int i = 2; i < 6; ++i) {
    const Type &t = kTypes[i];
    bool wide = t.width == 64;
    std::string type = std::string(".") + t.name, reg = wide ? ".b64" : ".b32";
    uint64_t mask = wide ? ~uint64_t{0} : 0xffffffff;
    for (bool in : {false, true})
      for (bool out : {false, true}) {
        if (!in && !out) continue;
        auto text = [&](const std::string &op, bool subtract, const std::string &operands) {
          std::string s = "{ .reg .b32 f; .reg " + reg + " x; .reg .pred q; and.b32 f, $c, 1; ";
          if (in) s += subtract ? "sub.cc.u32 f, 0, f; " : "add.cc.u32 f, f, -1; ";
          s += op + " x, " + operands + "; ";
          if (out)
            s += std::string(subtract ? "subc" : "addc") +
                 ".u32 f, 0, 0; setp.ne.u32 q, f, 0; @q xor" + reg + " x, x, " +
                 (wide ? "0x9e3779b97f4a7c15" : "0x7f4a7c15") + "; ";
          return s + "mov" + reg + " $d, x; }";
        };
        auto finish = [=](unsigned __int128 exact, bool carry) {
          uint64_t r = static_cast<uint64_t>(exact) & mask;
          return out && carry ? (r ^ kMark) & mask : r;
        };
        for (bool subtract : {false, true}) {
          std::string op =
              std::string(subtract ? "sub" : "add") + (in ? "c" : "") + (out ? ".cc" : "") + type;
          add({text(op, subtract, "$a, $b"),
               t.kind,
               {t.kind, t.kind, Kind::U32},
               [=](uint64_t a, uint64_t b, uint64_t c) {
                 uint64_t flag = in ? c & 1 : 0;
                 if (subtract)
                   return finish(static_cast<unsigned __int128>(a) - b - flag,
                                 static_cast<unsigned __int128>(a) <
                                     static_cast<unsigned __int128>(b) + flag);
                 unsigned __int128 sum = static_cast<unsigned __int128>(a) + b + flag;
                 return finish(sum, sum > mask);
               },
               nullptr,
               {},
               0,
               0,
               op});
        }
        for (bool high : {false, true}) {
          std::string op = std::string("mad") + (in ? "c" : "") + (high ? ".hi" : ".lo") +
                           (out ? ".cc" : "") + type;
          // The addend is made from b, so that c can hold the flag.
          add({text(op, false, "$a, $b, $b"),
               t.kind,
               {t.kind, t.kind, Kind::U32},
               [=](uint64_t a, uint64_t b, uint64_t c) {
                 uint64_t product;
                 if (!high)
                   product = (a * b) & mask;
                 else if (t.is_signed)
                   product = static_cast<uint64_t>((value(t, a) * value(t, b)) >> t.width) & mask;
                 else
                   product =
                       static_cast<uint64_t>((static_cast<unsigned __int128>(a) * b) >> t.width);
                 unsigned __int128 sum =
                     static_cast<unsigned __int128>(product) + b + (in ? c & 1 : 0);
                 return finish(sum, sum > mask);
               },
               nullptr,
               {},
               0,
               0,
               op});
        }
      }
  }
}

// Between the two kinds the flag is that of an adder: a subtraction sets it unless it borrows.
void mixed_carries() {
  auto words = [](uint64_t low, uint64_t high) { return (low & 0xffffffff) | high << 32; };
  add({"{ .reg .b32 x, y; sub.cc.u32 x, $a, $b; addc.u32 y, $a, $b; mov.b64 $d, {x, y}; }",
       Kind::U64,
       {Kind::U32, Kind::U32},
       [=](uint64_t a, uint64_t b, uint64_t) { return words(a - b, a + b + (a >= b ? 1 : 0)); }});
  add({"{ .reg .b32 x, y; add.cc.u32 x, $a, $b; subc.u32 y, $a, $b; mov.b64 $d, {x, y}; }",
       Kind::U64,
       {Kind::U32, Kind::U32},
       [=](uint64_t a, uint64_t b, uint64_t) {
         bool carry = a + b > 0xffffffff;
         return words(a + b, a - b - (carry ? 0 : 1));
       }});
}

void relu() {
  for (bool max : {false, true}) {
    std::string op = max ? "max.relu" : "min.relu";
    auto one = [=](int64_t x, int64_t y) {
      return std::max<int64_t>(0, max ? std::max(x, y) : std::min(x, y));
    };
    add({op + ".s32", Kind::S32, {Kind::S32, Kind::S32}, [=](uint64_t a, uint64_t b, uint64_t) {
           return static_cast<uint64_t>(one(static_cast<int32_t>(a), static_cast<int32_t>(b)));
         }});
    add({op + ".s16x2", Kind::B32, {Kind::B32, Kind::B32}, [=](uint64_t a, uint64_t b, uint64_t) {
           auto low = one(static_cast<int16_t>(a), static_cast<int16_t>(b));
           auto high = one(static_cast<int16_t>(a >> 16), static_cast<int16_t>(b >> 16));
           return static_cast<uint64_t>(low | high << 16);
         }});
  }
}

// selp, slct and mov copy bits, whatever the type says they are.
void copies() {
  struct Named {
    const char *name;
    Kind kind;
  };
  const Named all[] = {{"b16", Kind::B16}, {"u16", Kind::U16}, {"s16", Kind::S16},
                       {"b32", Kind::B32}, {"u32", Kind::U32}, {"s32", Kind::S32},
                       {"f32", Kind::F32}, {"b64", Kind::B64}, {"u64", Kind::U64},
                       {"s64", Kind::S64}, {"f64", Kind::F64}};
  for (const Named &t : all) {
    std::string dot = std::string(".") + t.name;
    add({"mov" + dot, t.kind, {t.kind}, [](uint64_t a, uint64_t, uint64_t) { return a; }});
    for (bool negated : {false, true})
      add({"selp" + dot + " $d, $a, $b, " + (negated ? "!$c" : "$c"),
           t.kind,
           {t.kind, t.kind, Kind::P},
           [=](uint64_t a, uint64_t b, uint64_t c) { return (c != 0) != negated ? a : b; }});
    add({"slct" + dot + ".s32",
         t.kind,
         {t.kind, t.kind, Kind::S32},
         [](uint64_t a, uint64_t b, uint64_t c) { return static_cast<int32_t>(c) >= 0 ? a : b; }});
    for (bool ftz : {false, true})
      add({std::string(ftz ? "slct.ftz" : "slct") + dot + ".f32",
           t.kind,
           {t.kind, t.kind, Kind::F32},
           [=](uint64_t a, uint64_t b, uint64_t c) {
             float x = as_float(c);
             if (ftz && std::fpclassify(x) == FP_SUBNORMAL) x = 0;
             return x >= 0 ? a : b;
           }});
  }
}

void pairs() {
  for (bool s : {false, true}) {
    std::string type = s ? "s16x2" : "u16x2";
    auto part = [s](uint64_t raw, unsigned at) -> Wide {
      return s ? static_cast<Wide>(static_cast<int16_t>(raw >> at))
               : static_cast<Wide>(static_cast<uint16_t>(raw >> at));
    };
    auto both = [](Wide low, Wide high) {
      return (wrap(low) & 0xffff) | (wrap(high) & 0xffff) << 16;
    };
    add({"min." + type, Kind::B32, {Kind::B32, Kind::B32}, [=](uint64_t a, uint64_t b, uint64_t) {
           return both(std::min(part(a, 0), part(b, 0)), std::min(part(a, 16), part(b, 16)));
         }});
    add({"max." + type, Kind::B32, {Kind::B32, Kind::B32}, [=](uint64_t a, uint64_t b, uint64_t) {
           return both(std::max(part(a, 0), part(b, 0)), std::max(part(a, 16), part(b, 16)));
         }});
    add({"add." + type, Kind::B32, {Kind::B32, Kind::B32}, [=](uint64_t a, uint64_t b, uint64_t) {
           return both(part(a, 0) + part(b, 0), part(a, 16) + part(b, 16));
         }});
  }
}

}  // namespace

void integer_cases() {
  arithmetic();
  narrow_products();
  logic();
  carries();
  carry_forms();
  mixed_carries();
  relu();
  copies();
  pairs();
}

}  // namespace harness
