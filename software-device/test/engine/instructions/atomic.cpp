// atom and red of every operation, type, order, scope and state space. The place is the thread's
// own: what is shared between threads is tested in behaviour/.
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "reference.h"

namespace harness {
namespace {

struct Operation {
  const char *name;  // "add"
  const char *type;  // with .noftz before it where it belongs
  Kind kind;
  // What is stored, from what was there and the operands.
  std::function<uint64_t(uint64_t old, uint64_t b, uint64_t c)> apply;
  std::function<uint64_t(uint64_t old, uint64_t b, uint64_t c)> apply_shared = nullptr;
  bool with_red = true;
};

uint64_t half_sum(const SmallFormat &format, uint64_t a, uint64_t b) {
  double x = format.value(a), y = format.value(b);
  if (!std::isfinite(x) || !std::isfinite(y)) return format.round(x + y, FE_TONEAREST);
  __float128 sum = static_cast<__float128>(x) + y;
  return sum == 0 ? format.round(x + y, FE_TONEAREST) : rounded(format, sum);
}
uint64_t half_extreme(const SmallFormat &format, bool max, uint64_t a, uint64_t b) {
  double x = format.value(a), y = format.value(b);
  if (std::isnan(x) && std::isnan(y)) return 0x7fff;
  if (std::isnan(x)) return b;
  if (std::isnan(y)) return a;
  if (x == y) return std::signbit(x) != max ? a : b;
  return (x < y) != max ? a : b;
}

template <class T>
T as(uint64_t v) {
  return static_cast<T>(v);
}
template <class T>
void integers(const char *type, Kind kind, std::vector<Operation> *out) {
  out->push_back({"add", type, kind, [](uint64_t a, uint64_t b, uint64_t) { return a + b; }});
  out->push_back({"min", type, kind, [](uint64_t a, uint64_t b, uint64_t) {
                    return as<uint64_t>(as<T>(a) < as<T>(b) ? as<T>(a) : as<T>(b));
                  }});
  out->push_back({"max", type, kind, [](uint64_t a, uint64_t b, uint64_t) {
                    return as<uint64_t>(as<T>(a) > as<T>(b) ? as<T>(a) : as<T>(b));
                  }});
}

std::vector<Operation> operations() {
  std::vector<Operation> all;
  integers<uint32_t>(".u32", Kind::U32, &all);
  integers<int32_t>(".s32", Kind::S32, &all);
  integers<uint64_t>(".u64", Kind::U64, &all);
  integers<int64_t>(".s64", Kind::S64, &all);
  all.push_back({"inc", ".u32", Kind::U32,
                 [](uint64_t a, uint64_t b, uint64_t) { return a >= b ? 0 : a + 1; }});
  all.push_back({"dec", ".u32", Kind::U32,
                 [](uint64_t a, uint64_t b, uint64_t) { return a == 0 || a > b ? b : a - 1; }});
  for (auto [type, kind] : {std::pair{".b32", Kind::B32}, {".b64", Kind::B64}}) {
    all.push_back({"and", type, kind, [](uint64_t a, uint64_t b, uint64_t) { return a & b; }});
    all.push_back({"or", type, kind, [](uint64_t a, uint64_t b, uint64_t) { return a | b; }});
    all.push_back({"xor", type, kind, [](uint64_t a, uint64_t b, uint64_t) { return a ^ b; }});
    all.push_back(
        {"exch", type, kind, [](uint64_t, uint64_t b, uint64_t) { return b; }, nullptr, false});
  }
  for (auto [type, kind] : {std::pair{".b16", Kind::B16},
                            {".b32", Kind::B32},
                            {".b64", Kind::B64},
                            {".u32", Kind::U32},
                            {".u64", Kind::U64}})
    all.push_back({"cas", type, kind,
                   [](uint64_t a, uint64_t b, uint64_t c) { return a == b ? c : a; }, nullptr,
                   false});
  // In global memory subnormals are flushed, in shared memory not.
  auto sum = [](float x, float y, bool ftz) {
    float r = ftz ? flushed(flushed(x) + flushed(y)) : x + y;
    return std::isnan(r) ? uint64_t{0x7fffffff} : bits(r);
  };
  all.push_back(
      {"add", ".f32", Kind::F32,
       [=](uint64_t a, uint64_t b, uint64_t) { return sum(as_float(a), as_float(b), true); },
       [=](uint64_t a, uint64_t b, uint64_t) { return sum(as_float(a), as_float(b), false); }});
  all.push_back({"add", ".f64", Kind::F64, [](uint64_t a, uint64_t b, uint64_t) {
                   double r = as_double(a) + as_double(b);
                   return std::isnan(r) ? uint64_t{0x7fffffffffffffff} : bits(r);
                 }});
  for (bool brain : {false, true}) {
    const SmallFormat &f = brain ? SmallFormat::bf16() : SmallFormat::f16();
    auto one = [&f](uint64_t a, uint64_t b, uint64_t) {
      return half_sum(f, a & 0xffff, b & 0xffff);
    };
    auto two = [&f](uint64_t a, uint64_t b, uint64_t) {
      return half_sum(f, a & 0xffff, b & 0xffff) | half_sum(f, a >> 16, b >> 16) << 16;
    };
    all.push_back(
        {"add", brain ? ".noftz.bf16" : ".noftz.f16", brain ? Kind::BF16 : Kind::F16, one});
    all.push_back(
        {"add", brain ? ".noftz.bf16x2" : ".noftz.f16x2", brain ? Kind::BF16x2 : Kind::F16x2, two});
  }
  return all;
}

unsigned width(Kind kind) {
  switch (kind) {
    case Kind::B16:
    case Kind::F16:
    case Kind::BF16:
      return 16;
    case Kind::B64:
    case Kind::U64:
    case Kind::S64:
    case Kind::F64:
      return 64;
    default:
      return 32;
  }
}
uint64_t masked(uint64_t v, unsigned bits) {
  return bits == 64 ? v : v & ((uint64_t{1} << bits) - 1);
}

// d = what the instruction gave * 31 + what is in memory then
void one_form(const Operation &op, const char *space, bool reduce, const std::string &modifiers) {
  bool shared = std::string(space).compare(0, 7, ".shared") == 0;
  unsigned bits = width(op.kind);
  std::string type = ".b" + std::to_string(bits), at = shared ? "$s" : "$m";
  std::string access = shared ? ".shared" : ".global";
  bool cas = std::string(op.name) == "cas";
  std::string form =
      std::string(reduce ? "red" : "atom") + modifiers + space + "." + op.name + op.type;
  // Which NaN a double-precision sum gives is left open.
  std::string one_nan = op.kind == Kind::F64 ? "{ .reg .pred z; testp.notanumber.f64 z, n;"
                                               " @z mov.b64 n, 0x7fffffffffffffff; } "
                                             : "";
  std::string wide = bits == 64 ? "mov.b64 " : "cvt.u64.u" + std::to_string(bits) + " ";
  add({"{ .reg " + type + " o, n; .reg .b64 x, y; mov" + type + " o, 0; st" + access + type + " [" +
           at + "+8], $a; " + form + (reduce ? "" : " o,") + " [" + at + "+8], $b" +
           (cas ? ", $c" : "") + "; ld" + access + type + " n, [" + at + "+8]; " + one_nan + wide +
           "x, o; " + wide + "y, n; mad.lo.u64 $d, x, 31, y; }",
       Kind::U64,
       cas ? std::vector<Kind>{op.kind, op.kind, op.kind} : std::vector<Kind>{op.kind, op.kind},
       [=](uint64_t a, uint64_t b, uint64_t c) {
         const auto &f = shared && op.apply_shared ? op.apply_shared : op.apply;
         return (reduce ? 0 : a) * 31 + masked(f(a, b, c), bits);
       },
       nullptr,
       {},
       0,
       0,
       form,
       {},
       true});
}

void scalars() {
  for (const Operation &op : operations())
    for (const char *space : {"", ".global", ".shared", ".shared::cta"})
      for (const char *order : {"", ".relaxed", ".acquire", ".release", ".acq_rel"})
        for (const char *scope : {"", ".cta", ".cluster", ".gpu", ".sys"}) {
          std::string modifiers = std::string(order) + scope;
          one_form(op, space, false, modifiers);
          bool orders = std::string(order) == ".acquire" || std::string(order) == ".acq_rel";
          if (op.with_red && !orders) one_form(op, space, true, modifiers);
        }
  // The scope written behind the state space, as older compilers do.
  for (const Operation &op : operations())
    for (const char *place : {".global.cta", ".global.sys", ".shared.cta"}) {
      one_form(op, place, false, "");
      if (op.with_red) one_form(op, place, true, "");
    }
}

// Every order with every scope, each also without the other.
std::vector<std::string> orders() {
  std::vector<std::string> all;
  for (const char *order : {"", ".relaxed", ".acquire", ".release", ".acq_rel"})
    for (const char *scope : {"", ".cta", ".cluster", ".gpu", ".sys"})
      all.push_back(std::string(order) + scope);
  return all;
}

// Elements of vectors are atomic each by itself: op on {a, b, a, b, ...} in memory with {b, a,
// ...}.
struct Vector {
  const char *op, *type;
  unsigned bits, most;
  std::function<uint64_t(uint64_t, uint64_t)> apply;
};
std::vector<Vector> vector_operations() {
  std::vector<Vector> all;
  all.push_back({"add", ".f32", 32, 4, [](uint64_t a, uint64_t b) {
                   float r = flushed(flushed(as_float(a)) + flushed(as_float(b)));
                   return std::isnan(r) ? uint64_t{0x7fffffff} : bits(r);
                 }});
  for (bool brain : {false, true}) {
    const SmallFormat &f = brain ? SmallFormat::bf16() : SmallFormat::f16();
    for (const char *op : {"add", "min", "max"}) {
      std::string name = op;
      auto one = [=, &f](uint64_t a, uint64_t b) {
        return name == "add" ? half_sum(f, a, b) : half_extreme(f, name == "max", a, b);
      };
      all.push_back({op, brain ? ".noftz.bf16" : ".noftz.f16", 16, 8, one});
      all.push_back(
          {op, brain ? ".noftz.bf16x2" : ".noftz.f16x2", 32, 4, [=](uint64_t a, uint64_t b) {
             return one(a & 0xffff, b & 0xffff) | one(a >> 16, b >> 16) << 16;
           }});
    }
  }
  return all;
}

void vectors() {
  for (const Vector &v : vector_operations())
    for (unsigned count = 2; count <= v.most; count *= 2)
      for (const char *space : {"", ".global"})
        for (const std::string &order : orders())
          for (bool reduce : {false, true}) {
            if (reduce && order.compare(0, 4, ".acq") == 0) continue;
            // .noftz stands before the vector's length.
            std::string type = v.type, flush;
            if (type.compare(0, 6, ".noftz") == 0) {
              flush = ".noftz";
              type = type.substr(6);
            }
            std::string form = std::string(reduce ? "red" : "atom") + order + space + "." + v.op +
                               flush + ".v" + std::to_string(count) + type;
            std::string reg = ".b" + std::to_string(v.bits);
            std::string text = "{ .reg " + reg + " o<8>, n; .reg .b64 x, y; mov.u64 y, 0; ", olds,
                        news;
            for (unsigned i = 0; i < count; ++i) {
              std::string number = std::to_string(i);
              text += "mov" + reg + " o" + number + ", 0; st.global" + reg + " [$m+" +
                      std::to_string(32 + i * v.bits / 8) + "], " + (i % 2 ? "$b" : "$a") + "; ";
              olds += (i ? ", o" : "o") + number;
              news += std::string(i ? ", " : "") + (i % 2 ? "$a" : "$b");
            }
            text += form + (reduce ? " " : " {" + olds + "}, ") + "[$m+32], {" + news + "}; ";
            auto add_to_y = [&](const std::string &what) {
              text += "cvt.u64.u" + std::to_string(v.bits) + " x, " + what +
                      "; mad.lo.u64 y, y, 31, x; ";
            };
            for (unsigned i = 0; i < count; ++i) {
              add_to_y("o" + std::to_string(i));
              text += "ld.global" + reg + " n, [$m+" + std::to_string(32 + i * v.bits / 8) + "]; ";
              add_to_y("n");
            }
            Kind kind = v.bits == 16                         ? Kind::F16
                        : v.type[0] == '.' && type == ".f32" ? Kind::F32
                                                             : Kind::F16x2;
            add({text + "mov.b64 $d, y; }",
                 Kind::B64,
                 {kind, kind},
                 [=](uint64_t a, uint64_t b, uint64_t) {
                   uint64_t y = 0;
                   for (unsigned i = 0; i < count; ++i) {
                     uint64_t old = i % 2 ? b : a, with = i % 2 ? a : b;
                     y = y * 31 + (reduce ? 0 : old);
                     y = y * 31 + v.apply(old, with);
                   }
                   return y;
                 },
                 nullptr,
                 {},
                 0,
                 0,
                 form,
                 {},
                 true});
          }
}

// 128 bits: {a, b} in memory, exchanged with {b, a} where it is, or is not, what is expected.
void wide() {
  for (const char *space : {"", ".global", ".shared"})
    for (const std::string &order : orders())
      for (int variant = 0; variant < 3; ++variant) {
        bool shared = space[0] && space[1] == 's', cas = variant > 0, equal = variant == 1;
        std::string at = shared ? "[$s+16]" : "[$m+16]", access = shared ? ".shared" : ".global";
        std::string form = "atom" + order + space + (cas ? ".cas" : ".exch") + ".b128";
        add({"{ .reg .b128 o, n, e; .reg .b64 x, y, z; mov.b128 n, {$a, $b}; st" + access +
                 ".b128 " + at + ", n; mov.b128 e, {$a, " + (equal ? "$b" : "$a") +
                 "}; mov.b128 n, {$b, $a}; " + form + " o, " + at + (cas ? ", e" : "") +
                 ", n; mov.b128 {x, y}, o; mad.lo.u64 z, x, 31, y; ld" + access + ".b128 n, " + at +
                 "; mov.b128 {x, y}, n; mad.lo.u64 z, z, 31, x; mad.lo.u64 $d, z, 31, y; }",
             Kind::B64,
             {Kind::B64, Kind::B64},
             [=](uint64_t a, uint64_t b, uint64_t) {
               bool swapped = !cas || equal || a == b;
               uint64_t z = a * 31 + b;
               return (z * 31 + (swapped ? b : a)) * 31 + (swapped ? a : b);
             },
             nullptr,
             {},
             0,
             0,
             form,
             {},
             true});
      }
}

// multimem on the one device: {a, b, a, ...} in memory, and {b, a, b, ...} to store or to add.
void one_multimem(const std::string &form, unsigned bits, unsigned count, Kind kind,
                  std::function<uint64_t(uint64_t, uint64_t)> apply) {
  const bool loads = form.find("ld_reduce") != std::string::npos;
  const std::string reg = ".b" + std::to_string(bits);
  std::string text = "{ .reg " + reg + " e<8>; .reg .b64 x, y; mov.u64 y, 0; ", list;
  auto place = [&](unsigned i) { return "[$m+" + std::to_string(32 + i * bits / 8) + "]"; };
  auto fold = [&](unsigned i) {
    const std::string e = "e" + std::to_string(i);
    text += bits == 64 ? "mov.b64 x, " + e + "; "
                       : "cvt.u64.u" + std::to_string(bits) + " x, " + e + "; ";
    if (kind == Kind::F64 && form.find(".red") != std::string::npos)  // NaNs of sums are one here
      text += "{ .reg .pred z; testp.notanumber.f64 z, x; @z mov.b64 x, 0x7fffffffffffffff; } ";
    text += "mad.lo.u64 y, y, 31, x; ";
  };
  for (unsigned i = 0; i < count; ++i) {
    text += "st.global" + reg + " " + place(i) + ", " + (i % 2 ? "$b" : "$a") + "; ";
    list += std::string(i ? ", " : "") + (loads ? "e" + std::to_string(i) : i % 2 ? "$a" : "$b");
  }
  if (count > 1) list = "{" + list + "}";
  text += loads ? form + " " + list + ", [$m+32]; " : form + " [$m+32], " + list + "; ";
  for (unsigned i = 0; i < count; ++i) {
    if (!loads) text += "ld.global" + reg + " e" + std::to_string(i) + ", " + place(i) + "; ";
    fold(i);
  }
  add({text + "mov.b64 $d, y; }",
       Kind::B64,
       {kind, kind},
       [=](uint64_t a, uint64_t b, uint64_t) {
         uint64_t y = 0;
         for (unsigned i = 0; i < count; ++i)
           y = y * 31 + masked(apply(i % 2 ? b : a, i % 2 ? a : b), bits);
         return y;
       },
       nullptr,
       {},
       0,
       0,
       form,
       {},
       true});
}

void multimem() {
  auto each_order = [](const char *what, const char *sync, bool weak, auto each) {
    std::vector<std::string> orders = {""};
    if (weak) orders.push_back(".weak");
    for (const char *order : {".relaxed", sync})
      for (const char *scope : {".cta", ".cluster", ".gpu", ".sys"})
        orders.push_back(std::string(order) + scope);
    for (const std::string &order : orders)
      for (const char *space : {"", ".global"})
        each(std::string("multimem.") + what + order + space);
  };
  struct Form {
    std::string op, type;
    unsigned bits, count;
    Kind kind;
    std::function<uint64_t(uint64_t, uint64_t)> apply;
  };
  std::vector<Form> all;
  auto plain = [](std::string type) { return type.substr(type.rfind('.')); };
  for (const Operation &op : operations()) {
    const std::string name = op.name, type = plain(op.type);
    if (!op.with_red || name == "inc" || name == "dec" || width(op.kind) == 16 ||
        (name == "add" && type == ".s64"))
      continue;
    all.push_back({name, type, width(op.kind), 1, op.kind,
                   [=](uint64_t a, uint64_t b) { return op.apply(a, b, 0); }});
  }
  for (const Vector &v : vector_operations())
    for (unsigned count = 1; count <= v.most; count *= 2) {
      const std::string type = plain(v.type);
      // One pair of halves is only loaded, but for sums, which are above.
      if (count == 1 && (v.bits == 16 || v.op[0] == 'a')) continue;
      const Kind kind = v.bits == 16 ? Kind::F16 : type == ".f32" ? Kind::F32 : Kind::F16x2;
      all.push_back({v.op, type, v.bits, count, kind, v.apply});
    }
  auto old = [](uint64_t a, uint64_t) { return a; };
  auto fresh = [](uint64_t, uint64_t b) { return b; };
  for (const Form &form : all) {
    const std::string length = form.count > 1 ? ".v" + std::to_string(form.count) : "";
    auto one = [&](const std::string &text, auto apply) {
      one_multimem(text, form.bits, form.count, form.kind, apply);
    };
    each_order("ld_reduce", ".acquire", true, [&](const std::string &begin) {
      one(begin + "." + form.op + length + form.type, old);
      const bool precise = form.op == "add" && form.type.find("f16") != std::string::npos;
      if (precise) one(begin + "." + form.op + ".acc::f32" + length + form.type, old);
    });
    const bool pair = form.count == 1 && form.kind == Kind::F16x2 && form.op[0] == 'm';
    each_order("red", ".release", false, [&](const std::string &begin) {
      if (!pair) one(begin + "." + form.op + length + form.type, form.apply);
    });
    if (form.op != "add" && form.op != "and") continue;  // each type once
    each_order("st", ".release", true,
               [&](const std::string &begin) { one(begin + length + form.type, fresh); });
  }
}

}  // namespace

void atomic_cases() {
  scalars();
  vectors();
  wide();
  multimem();
}

}  // namespace harness
