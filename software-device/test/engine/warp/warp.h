// Runs one instruction on many warps, whose lanes come together in groups of all kinds, and
// compares each lane with a scalar reference that sees the group.
#pragma once

#include <bit>
#include <functional>
#include <random>

#include "../behaviour/check.h"
#include "../proven.h"

namespace warp {

// The lanes that exchange, and what each of the warp's lanes holds.
struct Group {
  uint32_t members = 0;
  uint64_t a[32];
  uint32_t b[32], c[32];

  bool has(unsigned lane) const { return lane < 32 && (members >> lane) & 1; }
};

struct Result {
  uint32_t d = 0x1234;
  bool p = false;
  bool any = false;  // the ISA leaves d open
};

struct Operands {
  uint64_t a;
  uint32_t b, c;
};

struct Case {
  std::string form;
  // $d and $p are written, and hold 0x1234 and false before; $a or $A (64 bits), $b and $c are
  // operands, $x is bit 0 of a, $m is the mask of members.
  std::string text;
  std::function<void(const Group &, unsigned lane, Result *)> reference;
  std::function<Operands(std::mt19937 &)> operands;
  // Exchanges that name no members, as before ISA 6.0: whoever is there is one.
  bool implicit = false;
  unsigned warps = 192;
};

inline std::string kernel_of(const std::string &name, const Case &one) {
  std::string text;
  for (size_t i = 0; i < one.text.size(); ++i) {
    if (one.text[i] != '$') {
      text += one.text[i];
      continue;
    }
    switch (one.text[++i]) {
      case 'd':
        text += "%r26";
        break;
      case 'p':
        text += "%p2";
        break;
      case 'x':
        text += "%p1";
        break;
      case 'A':
        text += "%d20";
        break;
      default:
        text += "%r2" + std::to_string(std::string("abcm").find(one.text[i]));
    }
  }
  return check::kernel(name, 4,
                       R"(
    mul.wide.u32 %d40, %r3, 8; add.s64 %d41, %d1, %d40; ld.global.u64 %d20, [%d41];
    cvt.u32.u64 %r20, %d20; and.b32 %r25, %r20, 1; setp.ne.u32 %p1, %r25, 0;
    add.s64 %d41, %d2, %d40; ld.global.v2.u32 {%r21, %r22}, [%d41];
    add.s64 %d41, %d3, %d40; ld.global.v2.u32 {%r23, %r24}, [%d41];
    mov.u32 %r26, 0x1234; setp.ne.u32 %p2, %r0, %r0;
    setp.eq.u32 %p3, %r24, 0; @%p3 bra DONE; setp.eq.u32 %p4, %r24, 1; @%p4 bra FIRST;
    )" + text +
                           "\nbra DONE;\nFIRST: " + text + R"(
    DONE: selp.u32 %r27, 1, 0, %p2;
    add.s64 %d41, %d0, %d40; st.global.v2.u32 [%d41], {%r26, %r27};)");
}

// Which lanes run, and who meets whom: in turn whole warps, parts of one, single lanes, and two or
// three groups, of which one goes another way than the others.
inline void scatter(unsigned warp, bool implicit, std::mt19937 &random, uint32_t groups[3]) {
  const uint32_t kOn[] = {~0u,        static_cast<uint32_t>(random()),
                          0x0000ffff, 1u << random() % 32,
                          ~0u,        0xfffffffe,
                          0x80000001, 0x5a5a1237};
  const uint32_t on = kOn[warp % 8];
  const unsigned ways = warp / 8 % (implicit ? 2 : 3);
  const auto first = ways ? static_cast<uint32_t>(random()) : on;
  const auto second = ways == 2 ? static_cast<uint32_t>(random()) : ~0u;
  groups[0] = on & first;
  groups[1] = on & ~first & second;
  groups[2] = on & ~first & ~second;
}

inline void run(const std::vector<Case> &cases) {
  rig::Device device;
  std::string text = cases[0].implicit ? ".version 6.0\n.target sm_60\n.address_size 64\n"
                                       : ".version 9.0\n.target sm_90\n.address_size 64\n";
  unsigned most = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    text += kernel_of("k" + std::to_string(i), cases[i]);
    most = std::max(most, cases[i].warps);
  }
  auto program = device.load(text);
  CHECK(program);
  if (!program) return;
  auto *out = device.array<uint32_t>(most * 64), *bc = device.array<uint32_t>(most * 64);
  auto *who = device.array<uint32_t>(most * 64);
  auto *a = device.array<uint64_t>(most * 32);
  std::mt19937 random(31);
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case &one = cases[i];
    std::vector<Group> groups(one.warps * 3);
    for (unsigned w = 0; w < one.warps; ++w) {
      uint32_t members[3];
      scatter(w, one.implicit, random, members);
      for (unsigned lane = 0; lane < 32; ++lane) {
        const unsigned at = w * 32 + lane;
        const Operands operands = one.operands(random);
        a[at] = operands.a;
        bc[at * 2] = operands.b;
        bc[at * 2 + 1] = operands.c;
        who[at * 2] = who[at * 2 + 1] = 0;
        for (unsigned g = 0; g < 3; ++g) {
          groups[w * 3 + g].members = members[g];
          groups[w * 3 + g].a[lane] = operands.a;
          groups[w * 3 + g].b[lane] = operands.b;
          groups[w * 3 + g].c[lane] = operands.c;
          if (!((members[g] >> lane) & 1)) continue;
          who[at * 2] = members[g];
          who[at * 2 + 1] = g ? 2 : 1;
        }
      }
    }
    const std::string name = "k" + std::to_string(i);
    rig::Status status = device.launch(program, name.c_str(), {(one.warps + 3) / 4}, {128},
                                       rig::Parameters().add(out).add(a).add(bc).add(who));
    if (!status.ok()) {
      check::fail(__FILE__, __LINE__, one.form + ": " + status.message);
      continue;
    }
    bool right = true;
    for (unsigned at = 0; at < one.warps * 32 && right; ++at) {
      Result want;
      const unsigned lane = at % 32;
      for (unsigned g = 0; g < 3; ++g)
        if (groups[at / 32 * 3 + g].has(lane)) one.reference(groups[at / 32 * 3 + g], lane, &want);
      right = (want.any || out[at * 2] == want.d) && out[at * 2 + 1] == want.p;
      if (right) continue;
      char message[160];
      std::snprintf(message, sizeof message,
                    ": lane %u of %08x, a=%llx b=%x c=%x gave %x %u, expected %x %d", lane,
                    who[at * 2], static_cast<unsigned long long>(a[at]), bc[at * 2], bc[at * 2 + 1],
                    out[at * 2], out[at * 2 + 1], want.d, want.p);
      check::fail(__FILE__, __LINE__, one.form + message);
    }
    proven::add(one.form, size_t{one.warps} * 32);
  }
}

}  // namespace warp
