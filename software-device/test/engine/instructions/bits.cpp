// Bit manipulation, bit after bit.
#include <algorithm>
#include <cstdlib>
#include <string>

#include "harness.h"

namespace harness {
namespace {

int bit(uint64_t value, unsigned at) { return (value >> at) & 1; }

struct Type {
  const char *name;
  Kind kind;
  unsigned width;
  bool is_signed;
};

uint64_t bfe(const Type &t, uint64_t a, unsigned position, unsigned length) {
  unsigned top = position + length;
  int sign = 0;
  if (t.is_signed && length != 0) sign = bit(a, std::min(top - 1, t.width - 1));
  uint64_t result = 0;
  for (unsigned i = 0; i < t.width; ++i) {
    int b = i < length && position + i < t.width ? bit(a, position + i) : sign;
    result |= static_cast<uint64_t>(b) << i;
  }
  return result;
}

uint64_t prmt(const std::string &mode, uint64_t a, uint64_t b, uint64_t c) {
  uint8_t bytes[8];
  for (int i = 0; i < 4; ++i) {
    bytes[i] = static_cast<uint8_t>(a >> (8 * i));
    bytes[4 + i] = static_cast<uint8_t>(b >> (8 * i));
  }
  // The rows of the ISA's table for the modes, by the low two bits of c: most significant first.
  static const int f4e[4][4] = {{3, 2, 1, 0}, {4, 3, 2, 1}, {5, 4, 3, 2}, {6, 5, 4, 3}};
  static const int b4e[4][4] = {{5, 6, 7, 0}, {6, 7, 0, 1}, {7, 0, 1, 2}, {0, 1, 2, 3}};
  static const int rc8[4][4] = {{0, 0, 0, 0}, {1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};
  static const int ecl[4][4] = {{3, 2, 1, 0}, {3, 2, 1, 1}, {3, 2, 2, 2}, {3, 3, 3, 3}};
  static const int ecr[4][4] = {{0, 0, 0, 0}, {1, 1, 1, 0}, {2, 2, 1, 0}, {3, 2, 1, 0}};
  static const int rc16[4][4] = {{1, 0, 1, 0}, {3, 2, 3, 2}, {1, 0, 1, 0}, {3, 2, 3, 2}};
  const int(*table)[4] = mode == "f4e"   ? f4e
                         : mode == "b4e" ? b4e
                         : mode == "rc8" ? rc8
                         : mode == "ecl" ? ecl
                         : mode == "ecr" ? ecr
                                         : rc16;
  uint64_t result = 0;
  for (int i = 0; i < 4; ++i) {
    uint8_t byte;
    if (mode.empty()) {
      unsigned selector = (c >> (4 * i)) & 15;
      byte = bytes[selector & 7];
      if (selector & 8) byte = byte & 0x80 ? 0xff : 0x00;
    } else {
      byte = bytes[table[c & 3][3 - i]];
    }
    result |= static_cast<uint64_t>(byte) << (8 * i);
  }
  return result;
}

}  // namespace

void bit_cases() {
  const Type types[] = {{"u32", Kind::U32, 32, false},
                        {"s32", Kind::S32, 32, true},
                        {"u64", Kind::U64, 64, false},
                        {"s64", Kind::S64, 64, true}};
  for (const Type &t : types) {
    add({std::string("bfe.") + t.name,
         t.kind,
         {t.kind, Kind::U32, Kind::U32},
         [=](uint64_t a, uint64_t b, uint64_t c) { return bfe(t, a, b & 255, c & 255); }});
    for (bool shift : {false, true})
      add({std::string(shift ? "bfind.shiftamt." : "bfind.") + t.name,
           Kind::U32,
           {t.kind},
           [=](uint64_t a, uint64_t, uint64_t) -> uint64_t {
             int sign = t.is_signed ? bit(a, t.width - 1) : 0;
             for (int i = static_cast<int>(t.width) - 1; i >= 0; --i)
               if (bit(a, static_cast<unsigned>(i)) != sign)
                 return static_cast<uint64_t>(shift ? static_cast<int>(t.width) - 1 - i : i);
             return 0xffffffff;
           }});
  }
  const Type untyped[] = {{"b32", Kind::B32, 32, false}, {"b64", Kind::B64, 64, false}};
  for (const Type &t : untyped) {
    add({std::string("popc.") + t.name, Kind::U32, {t.kind}, [=](uint64_t a, uint64_t, uint64_t) {
           uint64_t n = 0;
           for (unsigned i = 0; i < t.width; ++i) n += static_cast<uint64_t>(bit(a, i));
           return n;
         }});
    add({std::string("clz.") + t.name, Kind::U32, {t.kind}, [=](uint64_t a, uint64_t, uint64_t) {
           uint64_t n = 0;
           while (n < t.width && !bit(a, t.width - 1 - static_cast<unsigned>(n))) ++n;
           return n;
         }});
    add({std::string("brev.") + t.name, t.kind, {t.kind}, [=](uint64_t a, uint64_t, uint64_t) {
           uint64_t r = 0;
           for (unsigned i = 0; i < t.width; ++i)
             r |= static_cast<uint64_t>(bit(a, i)) << (t.width - 1 - i);
           return r;
         }});
    for (unsigned length : {0u, 1u, 5u, 8u, 31u, 32u, 63u, 64u, 255u})
      add({std::string("bfi.") + t.name + " $d, $a, $b, $c, " + std::to_string(length),
           t.kind,
           {t.kind, t.kind, Kind::U32},
           [=](uint64_t a, uint64_t b, uint64_t c) {
             unsigned position = c & 255;
             uint64_t r = b;
             for (unsigned i = 0; i < length && position + i < t.width; ++i) {
               uint64_t one = uint64_t{1} << (position + i);
               r = bit(a, i < 64 ? i : 63) && i < 64 ? r | one : r & ~one;
             }
             return r;
           }});
  }
  for (bool clamp : {false, true}) {
    const char *mode = clamp ? "clamp" : "wrap";
    add({std::string("bmsk.") + mode + ".b32",
         Kind::B32,
         {Kind::U32, Kind::U32},
         [=](uint64_t a, uint64_t b, uint64_t) {
           uint64_t position = clamp ? std::min<uint64_t>(a, 32) : a & 31;
           uint64_t width = clamp ? std::min<uint64_t>(b, 32) : b & 31;
           uint64_t r = 0;
           for (uint64_t i = position; i < position + width && i < 32; ++i) r |= uint64_t{1} << i;
           return r;
         }});
    for (bool s : {false, true})
      add({std::string("szext.") + mode + (s ? ".s32" : ".u32"),
           Kind::B32,
           {Kind::U32, Kind::U32},
           [=](uint64_t a, uint64_t b, uint64_t) {
             uint64_t width = clamp ? std::min<uint64_t>(b, 32) : b & 31;
             int fill = s && width ? bit(a, static_cast<unsigned>(width - 1)) : 0;
             uint64_t r = 0;
             for (unsigned i = 0; i < 32; ++i)
               r |= static_cast<uint64_t>(i < width ? bit(a, i) : fill) << i;
             return r;
           }});
    for (bool left : {false, true})
      add({std::string("shf.") + (left ? "l." : "r.") + mode + ".b32",
           Kind::B32,
           {Kind::B32, Kind::B32, Kind::U32},
           [=](uint64_t a, uint64_t b, uint64_t c) {
             uint64_t n = clamp ? std::min<uint64_t>(c, 32) : c & 31;
             unsigned __int128 both = (static_cast<unsigned __int128>(b) << 32) | a;
             return static_cast<uint64_t>(left ? (both << n) >> 32 : both >> n) & 0xffffffff;
           }});
  }
  for (const char *mode : {"", "f4e", "b4e", "rc8", "ecl", "ecr", "rc16"}) {
    std::string name = mode;
    add({std::string("prmt.b32") + (name.empty() ? "" : ".") + name,
         Kind::B32,
         {Kind::B32, Kind::B32, Kind::B32},
         [=](uint64_t a, uint64_t b, uint64_t c) { return prmt(name, a, b, c); }});
  }
  for (unsigned table = 0; table < 256; ++table)
    add({"lop3.b32 $d, $a, $b, $c, " + std::to_string(table),
         Kind::B32,
         {Kind::B32, Kind::B32, Kind::B32},
         [=](uint64_t a, uint64_t b, uint64_t c) {
           uint64_t r = 0;
           for (unsigned i = 0; i < 32; ++i) {
             unsigned index = static_cast<unsigned>(bit(a, i) << 2 | bit(b, i) << 1 | bit(c, i));
             r |= static_cast<uint64_t>((table >> index) & 1) << i;
           }
           return r;
         }});
  // With a predicate: p = (d != 0) op q. The lowest bit of c is q too.
  for (const char *op : {"and", "or"})
    for (bool negated : {false, true})
      for (bool sink : {false, true})
        for (unsigned table : {0x00u, 0x1eu, 0x80u, 0x96u, 0xfeu, 0xffu}) {
          std::string form = std::string("lop3.") + op + ".b32";
          bool conjunction = std::string(op) == "and";
          add(
              {"{ .reg .pred p, q; .reg .b32 x; and.b32 x, $c, 1; setp.ne.u32 q, x, 0; mov.u32 x, "
               "0; " +
                   form + (sink ? " _" : " x") + "|p, $a, $b, $c, " + std::to_string(table) + ", " +
                   (negated ? "!q" : "q") + "; selp.b32 $d, 0x55aa33cc, 0, p; xor.b32 $d, $d, x; }",
               Kind::B32,
               {Kind::B32, Kind::B32, Kind::B32},
               [=](uint64_t a, uint64_t b, uint64_t c) {
                 uint64_t r = 0;
                 for (unsigned i = 0; i < 32; ++i) {
                   unsigned index =
                       static_cast<unsigned>(bit(a, i) << 2 | bit(b, i) << 1 | bit(c, i));
                   r |= static_cast<uint64_t>((table >> index) & 1) << i;
                 }
                 bool q = (bit(c, 0) != 0) != negated;
                 bool p = conjunction ? r != 0 && q : r != 0 || q;
                 return (p ? 0x55aa33cc : 0) ^ (sink ? 0 : r);
               },
               nullptr,
               {},
               0,
               0,
               form});
        }
  // Position and length in two bytes of c.
  for (const Type &t : untyped)
    add({std::string(
             "{ .reg .b32 p, l; and.b32 p, $c, 255; shr.u32 l, $c, 8; and.b32 l, l, 255; bfi.") +
             t.name + " $d, $a, $b, p, l; }",
         t.kind,
         {t.kind, t.kind, Kind::B32},
         [=](uint64_t a, uint64_t b, uint64_t c) {
           unsigned position = c & 255, length = (c >> 8) & 255;
           uint64_t r = b;
           for (unsigned i = 0; i < length && position + i < t.width; ++i) {
             uint64_t one = uint64_t{1} << (position + i);
             r = bit(a, i) ? r | one : r & ~one;
           }
           return r;
         },
         nullptr,
         {0, 0x100, 0x800, 0x1004, 0x2000, 0x201f, 0x0120, 0x1f01, 0x4000, 0x403f, 0x083c, 0xffff,
          0x0140},
         0,
         0,
         std::string("bfi.") + t.name});
  add({"fns.b32",
       Kind::B32,
       {Kind::B32, Kind::B32, Kind::S32},
       [](uint64_t mask, uint64_t base, uint64_t n) -> uint64_t {
         auto offset = static_cast<int32_t>(n);
         if (base > 31) return 0xffffffff;  // undefined in PTX; ours is stable
         if (offset == 0) return bit(mask, static_cast<unsigned>(base)) ? base : 0xffffffff;
         int64_t count = std::abs(static_cast<int64_t>(offset));
         for (int64_t at = static_cast<int64_t>(base); at >= 0 && at<32; at += offset> 0 ? 1 : -1)
           if (bit(mask, static_cast<unsigned>(at)) && --count == 0)
             return static_cast<uint64_t>(at);
         return 0xffffffff;
       },
       nullptr,
       {0, 1, 2, 3, 5, 16, 31, 32, 33, 0xffffffff, 0xfffffffe, 0xfffffff0, 0x80000000,
        0x7fffffff}});
}

}  // namespace harness
