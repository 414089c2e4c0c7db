// Video instructions, as the ISA's pseudo-code has them.
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "harness.h"

namespace harness {
namespace {

using Wide = __int128;
const std::vector<uint64_t> kThird = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff, 0x80ff7f01};

Wide extended(uint64_t bits, int width, bool is_signed) {
  Wide v = static_cast<Wide>(bits & ((uint64_t{1} << width) - 1));
  return is_signed && (v >> (width - 1)) ? v - (Wide{1} << width) : v;
}
Wide clamped(Wide v, int width, bool is_signed) {
  Wide most = is_signed ? (Wide{1} << (width - 1)) - 1 : (Wide{1} << width) - 1;
  return std::clamp<Wide>(v, is_signed ? -most - 1 : 0, most);
}
uint64_t low(Wide v) { return static_cast<uint64_t>(v) & 0xffffffff; }

struct Selector {
  const char *text;
  int shift, width;
};
const Selector kSelectors[] = {{"", 0, 32},    {".b0", 0, 8},  {".b1", 8, 8},  {".b2", 16, 8},
                               {".b3", 24, 8}, {".h0", 0, 16}, {".h1", 16, 16}};
// All pairs of selectors in turn.
struct Turn {
  size_t n = 0;
  std::pair<const Selector &, const Selector &> next() {
    size_t i = n++;
    return {kSelectors[i % 7], kSelectors[i / 7 % 7]};
  }
};
const char *type(bool is_signed) { return is_signed ? ".s32" : ".u32"; }

using Operation = Wide (*)(Wide, Wide);
struct Named {
  const char *name;
  Operation f;
};
const Named kBinary[] = {
    {"vadd", [](Wide a, Wide b) { return a + b; }},
    {"vsub", [](Wide a, Wide b) { return a - b; }},
    {"vabsdiff", [](Wide a, Wide b) { return a > b ? a - b : b - a; }},
    {"vmin", [](Wide a, Wide b) { return std::min(a, b); }},
    {"vmax", [](Wide a, Wide b) { return std::max(a, b); }},
    {"vavrg", [](Wide a, Wide b) { return a + b >= 0 ? (a + b + 1) >> 1 : (a + b) >> 1; }},
};
const Named kCompare[] = {
    {".eq", [](Wide a, Wide b) -> Wide { return a == b; }},
    {".ne", [](Wide a, Wide b) -> Wide { return a != b; }},
    {".lt", [](Wide a, Wide b) -> Wide { return a < b; }},
    {".le", [](Wide a, Wide b) -> Wide { return a <= b; }},
    {".gt", [](Wide a, Wide b) -> Wide { return a > b; }},
    {".ge", [](Wide a, Wide b) -> Wide { return a >= b; }},
};
Wide shift_count(Wide b, bool wrap) { return wrap ? b & 31 : std::min<Wide>(b, 32); }

// One scalar instruction with every secondary operation and every merge.
void scalar(const std::string &form, Operation f, bool sd, bool sa, bool sb, bool sat, Turn *turn) {
  auto plain = [=](const Selector &x, const Selector &y, uint64_t a, uint64_t b) {
    return f(extended(a >> x.shift, x.width, sa), extended(b >> y.shift, y.width, sb));
  };
  auto [a0, b0] = turn->next();
  add({form + " $d, $a" + a0.text + ", $b" + b0.text,
       Kind::B32,
       {Kind::B32, Kind::B32},
       [=, &x = a0, &y = b0](uint64_t a, uint64_t b, uint64_t) {
         Wide v = plain(x, y, a, b);
         return low(sat ? clamped(v, 32, sd) : v);
       },
       nullptr,
       {},
       0,
       0,
       form,
       {},
       true});
  for (int second = 0; second < 3; ++second) {
    const char *names[] = {".add", ".min", ".max"};
    auto [s, t] = turn->next();
    std::string with = form + names[second];
    add({with + " $d, $a" + s.text + ", $b" + t.text + ", $c",
         Kind::B32,
         {Kind::B32, Kind::B32, Kind::B32},
         [=, &x = s, &y = t](uint64_t a, uint64_t b, uint64_t c) {
           Wide v = plain(x, y, a, b);
           Wide r = extended(low(sat ? clamped(v, 32, sd) : v), 32, sd), z = extended(c, 32, sd);
           return low(second == 0 ? r + z : second == 1 ? std::min(r, z) : std::max(r, z));
         },
         nullptr,
         kThird,
         0,
         0,
         with,
         {},
         true});
  }
  for (int i = 1; i < 7; ++i) {
    const Selector &to = kSelectors[i];
    auto [s, t] = turn->next();
    add({form + " $d" + to.text + ", $a" + s.text + ", $b" + t.text + ", $c",
         Kind::B32,
         {Kind::B32, Kind::B32, Kind::B32},
         [=, &to, &x = s, &y = t](uint64_t a, uint64_t b, uint64_t c) {
           Wide v = plain(x, y, a, b);
           uint64_t mask = ((uint64_t{1} << to.width) - 1) << to.shift;
           uint64_t r = low(sat ? clamped(v, to.width, sd) : v);
           return (c & ~mask) | ((r << to.shift) & mask);
         },
         nullptr,
         kThird,
         0,
         0,
         form,
         {},
         true});
  }
}

void scalars() {
  Turn turn;
  for (int bits = 0; bits < 16; ++bits) {
    bool sd = bits & 1, sa = bits & 2, sb = bits & 4, sat = bits & 8;
    std::string types = std::string(type(sd)) + type(sa) + type(sb);
    for (const Named &op : kBinary) {
      if (op.name[2] == 'v') continue;  // vavrg is parallel only
      std::string form = op.name + types + (sat ? ".sat" : "");
      scalar(form, op.f, sd, sa, sb, sat, &turn);
      // All pairs of bytes.
      const Selector &x = kSelectors[1 + bits % 4], &y = kSelectors[1 + bits / 4];
      Operation f = op.f;
      add({"{ .reg .b32 x, y; cvt.u32.u16 x, $a; cvt.u32.u16 y, $b; shl.b32 x, x, " +
               std::to_string(x.shift) + "; shl.b32 y, y, " + std::to_string(y.shift) + "; " +
               form + " $d, x" + x.text + ", y" + y.text + "; }",
           Kind::B32,
           {Kind::B8, Kind::B8},
           [=](uint64_t a, uint64_t b, uint64_t) {
             Wide v = f(extended(a, 8, sa), extended(b, 8, sb));
             return low(sat ? clamped(v, 32, sd) : v);
           },
           nullptr,
           {},
           0,
           0,
           form});
    }
    if (sb) continue;  // shift counts have no sign
    for (bool wrap : {false, true}) {
      std::string suffix = types + (sat ? ".sat" : "") + (wrap ? ".wrap" : ".clamp");
      if (wrap) {
        scalar(
            "vshl" + suffix, [](Wide a, Wide b) { return a * (Wide{1} << shift_count(b, true)); },
            sd, sa, sb, sat, &turn);
        scalar(
            "vshr" + suffix, [](Wide a, Wide b) { return a >> shift_count(b, true); }, sd, sa, sb,
            sat, &turn);
      } else {
        scalar(
            "vshl" + suffix, [](Wide a, Wide b) { return a * (Wide{1} << shift_count(b, false)); },
            sd, sa, sb, sat, &turn);
        scalar(
            "vshr" + suffix, [](Wide a, Wide b) { return a >> shift_count(b, false); }, sd, sa, sb,
            sat, &turn);
      }
    }
  }
  for (bool sa : {false, true})
    for (bool sb : {false, true})
      for (const Named &compare : kCompare)
        scalar(std::string("vset") + type(sa) + type(sb) + compare.name, compare.f, false, sa, sb,
               false, &turn);
}

void products() {
  Turn turn;
  struct Variant {
    const char *po, *a, *b, *c;
  };
  const Variant variants[] = {{"", "", "", ""},
                              {".po", "", "", ""},
                              {"", "-", "", ""},
                              {"", "", "-", ""},
                              {"", "", "", "-"}};
  for (int bits = 0; bits < 16; ++bits) {
    bool sd = bits & 1, sa = bits & 2, sb = bits & 4, sat = bits & 8;
    for (int shift : {0, 7, 15})
      for (const Variant &v : variants) {
        std::string form = std::string("vmad") + type(sd) + type(sa) + type(sb) + v.po +
                           (sat ? ".sat" : "") + (shift ? ".shr" + std::to_string(shift) : "");
        auto [s, t] = turn.next();
        bool po = *v.po, nab = *v.a || *v.b, nc = *v.c;
        add({form + " $d, " + v.a + "$a" + s.text + ", " + v.b + "$b" + t.text + ", " + v.c + "$c",
             Kind::B32,
             {Kind::B32, Kind::B32, Kind::B32},
             [=, &x = s, &y = t](uint64_t a, uint64_t b, uint64_t c) {
               bool final_sign = sa || sb || nab || nc;
               Wide tmp = extended(a >> x.shift, x.width, sa) * extended(b >> y.shift, y.width, sb);
               Wide lsb = 0;
               if (po) {
                 lsb = 1;
               } else if (nab) {
                 tmp = ~tmp;
                 lsb = 1;
               } else if (nc) {
                 c = ~c & 0xffffffff;
                 lsb = 1;
               }
               tmp += extended(c, 32, final_sign) + lsb;
               Wide result = tmp >> shift;
               if (sat) result = clamped(result, 32, final_sign);
               return low(result);
             },
             nullptr,
             kThird,
             0,
             0,
             form,
             {},
             true});
      }
  }
}

// `parts` halves or bytes at once. Selectors are drawn by chance: there are 16.7 million pairs.
void parallel(const std::string &form, Operation f, bool sd, bool sa, bool sb, bool sat,
              bool accumulate, unsigned parts, std::mt19937 &random) {
  int width = 32 / static_cast<int>(parts);
  const char letter = parts == 4 ? 'b' : 'h';
  for (unsigned mask = 1; mask < 1u << parts; ++mask) {
    auto choose = [&](unsigned first, std::vector<unsigned> *which) {
      std::string text = std::string(".") + letter;
      bool usual = random() % 4 == 0;
      which->resize(parts);
      for (unsigned i = parts; i-- > 0;) {
        (*which)[i] = usual ? first + i : random() % (2 * parts);
        text += static_cast<char>('0' + (*which)[i]);
      }
      return usual ? std::string() : text;
    };
    std::vector<unsigned> from_a, from_b;
    std::string select_a = choose(0, &from_a), select_b = choose(parts, &from_b), select_d;
    if (mask != (1u << parts) - 1 || random() % 2) {
      select_d = std::string(".") + letter;
      for (unsigned i = parts; i-- > 0;)
        if ((mask >> i) & 1) select_d += static_cast<char>('0' + i);
    }
    add({form + " $d" + select_d + ", $a" + select_a + ", $b" + select_b + ", $c",
         Kind::B32,
         {Kind::B32, Kind::B32, Kind::B32},
         [=](uint64_t a, uint64_t b, uint64_t c) {
           uint64_t both = a | b << 32;
           Wide sum = static_cast<Wide>(c);
           uint64_t merged = 0;
           for (unsigned i = 0; i < parts; ++i) {
             int at = static_cast<int>(i) * width;
             Wide t = f(extended(both >> (from_a[i] * static_cast<unsigned>(width)), width, sa),
                        extended(both >> (from_b[i] * static_cast<unsigned>(width)), width, sb));
             if (sat) t = clamped(t, width, sd);
             uint64_t part = ((uint64_t{1} << width) - 1) << at;
             bool on = (mask >> i) & 1;
             if (on) sum += t;
             merged |= on ? (static_cast<uint64_t>(t) << at) & part : c & part;
           }
           return accumulate ? low(sum) : merged;
         },
         nullptr,
         kThird,
         0,
         0,
         form,
         {},
         true});
  }
}

void parallels() {
  std::mt19937 random(7);
  for (unsigned parts : {2u, 4u})
    for (int bits = 0; bits < 8; ++bits) {
      bool sd = bits & 1, sa = bits & 2, sb = bits & 4;
      std::string count = std::to_string(parts), types = std::string(type(sa)) + type(sb);
      for (const Named &op : kBinary)
        for (int option = 0; option < 3; ++option)
          parallel(op.name + count + type(sd) + types +
                       (option == 1   ? ".sat"
                        : option == 2 ? ".add"
                                      : ""),
                   op.f, sd, sa, sb, option == 1, option == 2, parts, random);
      if (sd) continue;
      for (const Named &compare : kCompare)
        for (bool accumulate : {false, true})
          parallel("vset" + count + types + compare.name + (accumulate ? ".add" : ""), compare.f,
                   false, sa, sb, false, accumulate, parts, random);
    }
}

}  // namespace

void video_cases() {
  scalars();
  products();
  parallels();
}

}  // namespace harness
