// Threads that write beside one another, and warps that rely on their lanes going together.
#include "racing.h"

using namespace check;
using namespace racing;
using rig::Device;
using rig::Parameters;

// Atomics of 16 bits, stores of bytes and atomics of 32 bits side by side: none undoes another.
TEST(neighbouring_bytes_are_left_alone) {
  constexpr uint32_t kTurns = 20000;
  Device device(4);
  auto program = device.load(module(kernel("k", 2, take_role(4) + R"(
    mov.u32 %r10, 0; mov.u32 %r11, 0;
    setp.eq.u32 %p0, %r1, 0; @%p0 bra HALF; setp.eq.u32 %p0, %r1, 1; @%p0 bra BYTE;
    setp.eq.u32 %p0, %r1, 2; @%p0 bra OTHER; bra WORD;
    HALF: ld.relaxed.gpu.global.u16 %h0, [%d1]; add.s16 %h1, %h0, 1;
    atom.global.cas.b16 %h2, [%d1], %h0, %h1; setp.ne.u16 %p1, %h2, %h0;
    @%p1 red.global.add.u32 [%d1+12], 1;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p0, %r10, 20000; @%p0 bra HALF; bra END;
    BYTE: add.u32 %r10, %r10, 1; st.global.u8 [%d1+2], %r10; ld.volatile.global.u8 %r12, [%d1+2];
    and.b32 %r13, %r10, 255; setp.ne.u32 %p1, %r12, %r13; @%p1 red.global.add.u32 [%d1+12], 1;
    setp.lt.u32 %p0, %r10, 20000; @%p0 bra BYTE; bra END;
    OTHER: add.u32 %r10, %r10, 1; st.relaxed.gpu.global.u8 [%d1+3], %r10;
    ld.relaxed.gpu.global.u8 %r12, [%d1+3];
    and.b32 %r13, %r10, 255; setp.ne.u32 %p1, %r12, %r13; @%p1 red.global.add.u32 [%d1+12], 1;
    setp.lt.u32 %p0, %r10, 20000; @%p0 bra OTHER; bra END;
    WORD: red.global.add.u32 [%d1+4], 1; atom.global.add.noftz.f16x2 %r12, [%d1+8], 0x3c000000;
    add.u32 %r10, %r10, 1; setp.lt.u32 %p0, %r10, 20000; @%p0 bra WORD;
    END:)")));
  auto *roles = device.array<uint32_t>(17);
  auto *words = device.array<uint32_t>(4);
  CHECK_OK(device.launch(program, "k", {racing::kBlocks}, {1}, Parameters().add(roles).add(words)));
  CHECK((words[0] & 0xffff) == kTurns && words[0] >> 24 == kTurns % 256);
  CHECK((words[0] >> 16 & 0xff) == kTurns % 256);
  CHECK(words[1] == kTurns);
  CHECK(words[2] == 0x68000000);  // 2048, where halves stop counting
  CHECK(words[3] == 0);
}

// Sums of old programs: the last warp adds up with nothing but volatile accesses in between.
TEST(warps_without_synchronisation) {
  Device device;
  for (const char *space : {".shared", ".global"}) {
    const std::string at = std::string(space) == ".shared" ? "%r20" : "%d20";
    std::string text = std::string(space) == ".shared"
                           ? "mov.u32 %r20, box; mad.lo.u32 %r20, %r0, 4, %r20;\n"
                           : "mul.wide.u32 %d20, %r3, 4; add.s64 %d20, %d1, %d20;\n";
    text += "add.u32 %r4, %r3, 1; st.volatile" + std::string(space) + ".u32 [" + at +
            "], %r4; bar.sync 0;\n"
            // Lanes that were apart a moment ago
            "and.b32 %r5, %r0, 1; setp.eq.u32 %p0, %r5, 0; @%p0 bra EVEN; add.u32 %r6, %r4, 1;\n"
            "EVEN: setp.ge.u32 %p1, %r0, 32; @%p1 bra END;\n";
    for (unsigned apart = 32; apart; apart /= 2)
      text += "ld.volatile" + std::string(space) + ".u32 %r7, [" + at + "];\nld.volatile" + space +
              ".u32 %r8, [" + at + "+" + number(4 * apart) +
              "];\nadd.u32 %r7, %r7, %r8;\nst.volatile" + space + ".u32 [" + at + "], %r7;\n";
    text +=
        "setp.eq.u32 %p2, %r0, 0; mul.wide.u32 %d21, %r1, 4; add.s64 %d21, %d0, %d21;\n"
        "@%p2 st.global.u32 [%d21], %r7;\nEND:";
    auto program = device.load(module(".shared .align 4 .b8 box[512];\n" + kernel("k", 2, text)));
    constexpr unsigned kBlocks = 64;
    auto *sums = device.array<uint32_t>(kBlocks),
         *words = device.array<uint32_t>(kBlocks * 64 + 64);
    CHECK_OK(device.launch(program, "k", {kBlocks}, {64}, Parameters().add(sums).add(words)));
    bool right = true;
    for (uint32_t block = 0; block < kBlocks; ++block)
      right &= sums[block] == 64 * 64 * block + 64 * 65 / 2;
    if (!right) fail(__FILE__, __LINE__, space);
  }
}
