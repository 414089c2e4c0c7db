// mov of vectors and of 128 bits: what goes in must come out in place.
#include <string>

#include "harness.h"

namespace harness {
namespace {

// {lowest, ..., highest} of `element` bits to and from a register of `whole` bits.
void forms(unsigned whole, unsigned element) {
  unsigned count = whole / element;
  std::string type = ".b" + std::to_string(whole), part = ".b" + std::to_string(element);
  std::string form = "mov" + type;
  std::string names, reversed;
  for (unsigned i = 0; i < count; ++i) {
    std::string name = "e" + std::to_string(i);
    names += (i ? ", " : "") + name;
    reversed = name + (i ? ", " : "") + reversed;
  }
  Kind kind = whole == 16 ? Kind::B16 : whole == 32 ? Kind::B32 : Kind::B64;
  uint64_t mask = (uint64_t{1} << element) - 1;
  auto reverse = [=](uint64_t a) {
    uint64_t r = 0;
    for (unsigned i = 0; i < count; ++i)
      r |= ((a >> (i * element)) & mask) << ((count - 1 - i) * element);
    return r;
  };
  add({"{ .reg " + part + " " + names + "; " + form + " {" + names + "}, $a; " + form + " $d, {" +
           reversed + "}; }",
       kind,
       {kind},
       [=](uint64_t a, uint64_t, uint64_t) { return reverse(a); },
       nullptr,
       {},
       0,
       0,
       form});
  // One element only, the others into the sink.
  for (unsigned at = 0; at < count; ++at) {
    std::string list;
    for (unsigned i = 0; i < count; ++i) list += (i ? ", " : "") + std::string(i == at ? "e" : "_");
    std::string zeros;
    for (unsigned i = 1; i < count; ++i) zeros += ", 0";
    if (element == 8) continue;
    add({"{ .reg " + part + " e; " + form + " {" + list + "}, $a; " + form + " $d, {e" + zeros +
             "}; }",
         kind,
         {kind},
         [=](uint64_t a, uint64_t, uint64_t) { return (a >> (at * element)) & mask; },
         nullptr,
         {},
         0,
         0,
         form});
  }
}

}  // namespace

void pack_cases() {
  forms(16, 8);
  forms(32, 8);
  forms(32, 16);
  forms(64, 16);
  forms(64, 32);
  add({"mov.b64 $d, {$a, $b}",
       Kind::B64,
       {Kind::B32, Kind::B32},
       [](uint64_t a, uint64_t b, uint64_t) { return a | b << 32; }});
  add({"mov.b32 $d, {$a, $b}",
       Kind::B32,
       {Kind::B16, Kind::B16},
       [](uint64_t a, uint64_t b, uint64_t) { return a | b << 16; }});
  // 128 bits: in one register, copied, taken apart in the other way, and mixed so that order shows.
  add(
      {"{ .reg .b128 q, r; .reg .b64 x, y; mov.b128 q, {$a, $b}; mov.b128 r, q;"
       " mov.b128 {x, y}, r; mul.lo.u64 y, y, 3; xor.b64 $d, x, y; }",
       Kind::B64,
       {Kind::B64, Kind::B64},
       [](uint64_t a, uint64_t b, uint64_t) { return a ^ b * 3; },
       nullptr,
       {},
       0,
       0,
       "mov.b128"});
  add(
      {"{ .reg .b128 q; .reg .b64 x, y; mov.b64 x, $a; mov.b64 y, $b; mov.b128 q, {x, y};"
       " mov.b128 {y, x}, q; mul.lo.u64 y, y, 3; xor.b64 $d, x, y; }",
       Kind::B64,
       {Kind::B64, Kind::B64},
       [](uint64_t a, uint64_t b, uint64_t) { return b ^ a * 3; },
       nullptr,
       {},
       0,
       0,
       "mov.b128"});
  add(
      {"{ .reg .b128 q; .reg .b32 w, x, y, z; .reg .b64 l, h; mov.b64 {w, x}, $a; mov.b64 {y, z}, "
       "$b;"
       " mov.b128 q, {w, x, y, z}; mov.b128 {z, y, x, w}, q; mov.b64 l, {w, x}; mov.b64 h, {y, z};"
       " mul.lo.u64 h, h, 3; xor.b64 $d, l, h; }",
       Kind::B64,
       {Kind::B64, Kind::B64},
       [](uint64_t a, uint64_t b, uint64_t) {
         auto swapped = [](uint64_t v) { return v >> 32 | v << 32; };
         return swapped(b) ^ swapped(a) * 3;
       },
       nullptr,
       {},
       0,
       0,
       "mov.b128"});
}

}  // namespace harness
