// Aligned accesses of up to 16 bytes are whole: whoever loads them sees all of a store or nothing,
// though PTX promises that for each element only. Longer ones are whole by 16 bytes.
#include <vector>

#include "racing.h"

using namespace check;
using namespace racing;
using rig::Device;
using rig::Parameters;

namespace {

struct Form {
  unsigned count;
  const char *type;
  unsigned element, reg;  // bytes in memory and of the register
};
const Form kForms[] = {{2, "b64", 8, 8}, {1, "b128", 16, 8}, {4, "b32", 4, 4}, {2, "b32", 4, 4},
                       {2, "u32", 4, 8}, {4, "u32", 4, 8},   {4, "b16", 2, 2}, {2, "b16", 2, 2},
                       {8, "b16", 2, 2}, {4, "u16", 2, 4},   {8, "u16", 2, 4}, {4, "b8", 1, 2},
                       {2, "b8", 1, 2},  {8, "u8", 1, 4},    {4, "u8", 1, 8},  {8, "b32", 4, 4},
                       {4, "b64", 8, 8}, {1, "b64", 8, 8},   {1, "b32", 4, 4}};

// How the lanes' places lie, and which lanes take part.
struct Layout {
  const char *name;
  unsigned apart;  // bytes between them, in sizes of the access; 0: all at one place
  bool half;
};
const Layout kLayouts[] = {{"a row", 1, false},
                           {"far apart", 5, false},
                           {"one place", 0, false},
                           {"half of the lanes", 1, true}};

struct Order {
  const char *load, *store;
};
const Order kOrders[] = {{"", ""},
                         {".relaxed.gpu", ".relaxed.gpu"},
                         {".volatile", ".volatile"},
                         {".acquire.gpu", ".release.gpu"},
                         {".relaxed.sys", ""}};

constexpr unsigned kTurns = 10000 / kEvery;

std::string element(const Form &form, unsigned k) {
  const char *prefix = form.reg == 2 ? "%h" : form.reg == 4 ? "%r" : "%d";
  return prefix + number((form.reg == 2 ? 0u : 20u) + k);
}
std::string operand(const Form &form) {
  if (form.element == 16) return "%q0";
  if (form.count == 1) return element(form, 0);
  std::string text = "{";
  for (unsigned k = 0; k < form.count; ++k) text += (k ? ", " : "") + element(form, k);
  return text + "}";
}
std::string spelled(const char *kind, const char *order, const char *space, const Form &form) {
  return std::string(kind) + order + space +
         (form.count > 1 ? ".v" + number(form.count) : std::string()) + "." + form.type;
}

// All elements become one number, the turn; both halves of 64 bits do.
std::string fill(const Form &form) {
  std::string text;
  if (form.element == 16) return "mov.b64 %d20, {%r10, %r10}; mov.b128 %q0, {%d20, %d20};\n";
  for (unsigned k = 0; k < form.count; ++k) {
    const std::string to = element(form, k);
    text += form.reg == 2   ? "cvt.u16.u32 " + to + ", %r10; "
            : form.reg == 4 ? "mov.u32 " + to + ", %r10; "
                            : "mov.b64 " + to + ", {%r10, %r10}; ";
  }
  return text + "\n";
}
// %r12 becomes something else than 0 if what was loaded is of two stores.
std::string compare(const Form &form) {
  std::string text = "mov.u32 %r12, 0;\n";
  if (form.element >= 8) {
    std::vector<std::string> words;
    if (form.element == 16) text += "mov.b128 {%d20, %d21}, %q0;\n";
    const unsigned count = form.element == 16 ? 2 : form.count;
    for (unsigned k = 0; k < count; ++k)
      text += "mov.b64 {%r" + number(30 + 2 * k) + ", %r" + number(31 + 2 * k) + "}, %d" +
              number(20 + k) + ";\n";
    for (unsigned k = 1; k < 2 * count; ++k) {
      const unsigned first = k / 4 * 4;  // of its 16 bytes
      text += "xor.b32 %r13, %r" + number(30 + k) + ", %r" + number(30 + first) +
              "; or.b32 %r12, %r12, %r13;\n";
    }
    return text;
  }
  for (unsigned k = 0; k < form.count; ++k)
    text += (form.reg == 4   ? "mov.u32 %r"
             : form.reg == 2 ? "cvt.u32.u16 %r"
                             : "cvt.u32.u64 %r") +
            number(30 + k) + ", " + element(form, k) + ";\n";
  for (unsigned k = 1; k < form.count; ++k)
    text += "xor.b32 %r13, %r" + number(30 + k) + ", %r" +
            number(30 + k * form.element / 16 * 16 / form.element) + "; or.b32 %r12, %r12, %r13;\n";
  return text;
}

// One block stores, the other loads.
std::string racers(const std::string &name, const Form &form, const Order &order, const char *space,
                   const Layout &layout) {
  const unsigned bytes = form.count * form.element;
  return kernel(
      name, 3,
      ".reg .b128 %q<2>;\n"
      "mul.wide.u32 %d4, %r0, " +
          number(bytes * layout.apart) +
          "; add.s64 %d5, %d1, %d4; mov.u32 %r10, 0; mov.u32 %r11, 0;\n" + take_role(2) +
          (layout.half ? "and.b32 %r5, %r0, 1; setp.eq.u32 %p2, %r5, 1; @%p2 bra END;\n" : "") +
          "setp.eq.u32 %p0, %r1, 1; @%p0 bra LOADS;\n"
          "STORES: add.u32 %r10, %r10, 1;\n" +
          fill(form) + spelled("st", order.store, space, form) + " [%d5], " + operand(form) +
          ";\nsetp.lt.u32 %p0, %r10, " + number(kTurns) +
          "; @%p0 bra STORES; bra END;\n"
          "LOADS: add.u32 %r10, %r10, 1;\n" +
          spelled("ld", order.load, space, form) + " " + operand(form) + ", [%d5];\n" +
          compare(form) +
          "setp.ne.u32 %p3, %r12, 0; @%p3 add.u32 %r11, %r11, 1;\n"
          "setp.lt.u32 %p0, %r10, " +
          number(kTurns) +
          "; @%p0 bra LOADS; red.global.add.u32 [%d2], %r11;\n"
          "END:");
}

void race(const char *space, const Layout &layout, const Order &order) {
  Device device(2);
  auto *roles = device.array<uint32_t>(17), *torn = device.array<uint32_t>(1);
  auto *places = device.array<uint8_t>(32 * 32 * 8);
  std::string text = ".version 9.0\n.target sm_100\n.address_size 64\n";
  for (size_t f = 0; f < std::size(kForms); ++f)
    text += racers("k" + number(f), kForms[f], order, space, layout);
  auto program = device.load(text);
  CHECK(program);
  if (!program) return;
  for (size_t f = 0; f < std::size(kForms); ++f) {
    *torn = 0;
    std::memset(roles, 0, 17 * 4);
    std::memset(places, 0, 32 * 32 * 8);
    const std::string what = spelled("ld", order.load, space, kForms[f]) + ", " + layout.name;
    const rig::Status status = device.launch(program, ("k" + number(f)).c_str(), {kBlocks}, {32},
                                             Parameters().add(roles).add(places).add(torn));
    if (!status.ok()) fail(__FILE__, __LINE__, what + ": " + status.message);
    if (*torn) fail(__FILE__, __LINE__, what + ": " + number(*torn) + " are of two stores");
  }
}

}  // namespace

TEST(vectors_are_whole_in_global_memory) {
  for (const Layout &layout : kLayouts)
    for (const Order &order : kOrders) race(".global", layout, order);
}
TEST(vectors_are_whole_at_generic_addresses) {
  for (const Layout &layout : kLayouts)
    for (const Order &order : kOrders) race("", layout, order);
}

// A warp stores lines of 128 bytes, eight lanes each, whose last word is a flag; a warp that loads
// them and sees a flag sees what was stored with it.
TEST(lines_of_128_bytes_come_with_their_flags) {
  Device device(2);
  auto *roles = device.array<uint32_t>(17), *early = device.array<uint32_t>(1);
  auto *lines = device.array<uint64_t>(64);
  for (const char *order : {".volatile", ".relaxed.sys"}) {
    const std::string access = std::string(order) + ".global.v2.u64";
    auto program = device.load(module(kernel("k", 3, R"(
      mul.wide.u32 %d4, %r0, 16; add.s64 %d5, %d1, %d4; mov.u64 %d6, 0; mov.u32 %r11, 0;
      )" + take_role(2) + R"(
      setp.eq.u32 %p0, %r1, 1; @%p0 bra LOADS;
      STORES: add.u64 %d6, %d6, 1; st)" + access + R"( [%d5], {%d6, %d6};
      setp.lt.u64 %p0, %d6, 40000; @%p0 bra STORES; bra END;
      LOADS: add.u64 %d6, %d6, 1; ld)" + access + R"( {%d7, %d8}, [%d5];
      cvt.u32.u64 %r13, %d7; cvt.u32.u64 %r14, %d8; or.b32 %r15, %r0, 7;
      shfl.sync.idx.b32 %r16, %r14, %r15, 31, -1;
      setp.lt.u32 %p2, %r13, %r16; @%p2 add.u32 %r11, %r11, 1;
      setp.lt.u64 %p0, %d6, 40000; @%p0 bra LOADS; red.global.add.u32 [%d2], %r11;
      END:)")));
    *early = 0;
    std::memset(roles, 0, 17 * 4);
    std::memset(lines, 0, 64 * 8);
    CHECK_OK(device.launch(program, "k", {kBlocks}, {32},
                           Parameters().add(roles).add(lines).add(early)));
    if (*early) fail(__FILE__, __LINE__, access + ": " + number(*early) + " flags came early");
  }
}
