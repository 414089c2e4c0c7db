// What is only there for speed changes no result: fused addresses, merged loads, branches that
// compare, loads that look ahead. Everything here is run a second time without them
// (SOFTWARE_DEVICE_OPTIMISE=0).
#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

TEST(indices_of_both_signs_and_their_ends) {
  Device device;
  auto program = device.load(module(kernel("below", 2, R"(
        sub.s32 %r4, %r0, 40; mul.wide.s32 %d4, %r4, 4; add.s64 %d5, %d1, %d4;
        ld.global.u32 %r5, [%d5+160];)" + store_result("%r5")) +
                                    kernel("wraps", 2,
                                           R"(
        add.u32 %r4, %r0, -16; mul.wide.u32 %d4, %r4, 4; sub.s64 %d5, %d1, 17179869120;
        add.s64 %d5, %d5, %d4; ld.global.u32 %r5, [%d5];)" +
                                               store_result("%r5")) +
                                    kernel("wide", 2,
                                           R"(
        mad.wide.u32 %d5, %r3, 12, %d1; ld.global.u32 %r5, [%d5+4];)" +
                                               store_result("%r5")) +
                                    kernel("bases", 2, R"(
        mul.wide.u32 %d4, %r0, 4; add.s64 %d5, %d1, %d4; add.u32 %r6, %r2, 8; neg.s32 %r6, %r6;
        mul.wide.s32 %d6, %r6, 4; add.s64 %d7, %d5, %d6; ld.global.u32 %r7, [%d7+800];
        sub.u32 %r8, %r2, 56; mul.wide.u32 %d8, %r8, 8; add.s64 %d9, %d0, %d4;
        add.s64 %d9, %d9, %d8; st.global.u32 [%d9+4], %r7;)") +
                                    kernel("doubles", 2, R"(
        mul.wide.u32 %d4, %r3, 8; add.s64 %d5, %d4, %d1; ld.global.u64 %d6, [%d5];
        add.s64 %d7, %d0, %d4; st.global.u64 [%d7], %d6;)") +
                                    kernel("vectors", 2, R"(
        mul.wide.u32 %d4, %r3, 16; add.s64 %d5, %d1, %d4; add.s64 %d7, %d0, %d4;
        ld.global.v4.u32 {%r4, %r5, _, %r7}, [%d5]; ld.global.v2.u32 {%r8, %r9}, [%d5+8];
        st.global.v4.u32 [%d7], {%r7, %r8, %r5, %r4};)")));
  auto *out = device.array<uint32_t>(1024), *in = device.array<uint32_t>(1024);
  for (uint32_t i = 0; i < 1024; ++i) in[i] = i * 2654435761u;
  auto run = [&](const char *name, uint32_t threads) {
    return device.launch(program, name, {1}, {threads}, Parameters().add(out).add(in));
  };
  CHECK_OK(run("below", 64));
  for (uint32_t i = 0; i < 64; ++i) CHECK(out[i] == in[i]);
  CHECK_OK(run("wraps", 16));
  for (uint32_t i = 0; i < 16; ++i) CHECK(out[i] == in[i]);
  CHECK_FAILS(run("wraps", 32), 700, "thread (16,0,0)", "read of 4 bytes");
  CHECK_OK(run("wide", 96));
  for (uint32_t i = 0; i < 96; ++i) CHECK(out[i] == in[3 * i + 1]);
  for (uint32_t i = 0; i < 1024; ++i) out[i] = 0;
  CHECK_OK(run("bases", 64));
  for (uint32_t i = 0; i < 64; ++i) CHECK(out[i + 17] == in[i + 128]);
  CHECK_OK(run("doubles", 100));
  for (uint32_t i = 0; i < 200; ++i) CHECK(out[i] == in[i]);
  CHECK_OK(run("vectors", 200));
  for (uint32_t i = 0; i < 200; ++i)
    CHECK(out[4 * i] == in[4 * i + 3] && out[4 * i + 1] == in[4 * i + 2] &&
          out[4 * i + 2] == in[4 * i + 1] && out[4 * i + 3] == in[4 * i]);
}

TEST(an_index_that_changes) {
  Device device;
  auto program = device.load(module(kernel("k", 2, R"(
    mov.u32 %r4, %r0; mov.u32 %r10, 0;
    LOOP: mul.wide.u32 %d4, %r4, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r5, [%d5];
    add.u32 %r4, %r4, 64; ld.global.u32 %r6, [%d5+4]; add.u32 %r10, %r10, %r5;
    xor.b32 %r10, %r10, %r6; setp.lt.u32 %p0, %r4, 1000; @%p0 bra LOOP;
    mul.wide.u32 %d4, %r0, 4; add.s64 %d6, %d0, %d4; @%p0 add.s64 %d6, %d6, 4;
    st.global.u32 [%d6], %r10;)")));
  auto *out = device.array<uint32_t>(64), *in = device.array<uint32_t>(1025);
  for (uint32_t i = 0; i < 1025; ++i) in[i] = i * i + 7;
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out).add(in)));
  for (uint32_t t = 0; t < 64; ++t) {
    uint32_t sum = 0;
    for (uint32_t i = t; i < 1000; i += 64) sum = (sum + in[i]) ^ in[i + 1];
    CHECK(out[t] == sum);
  }
}

TEST(neighbours_in_shared_memory) {
  Device device;
  const std::string fill = R"(
    shl.b32 %r4, %r0, 2; mul.lo.u32 %r5, %r0, 77; st.shared.u32 [%r4], %r5; bar.sync 0;
  )";
  auto program = device.load(module(".shared .align 16 .b8 box[512];\n" +
                                    kernel("apart", 1,
                                           "mov.u32 %r9, box;" + fill + R"(
        and.b32 %r6, %r4, 252; ld.shared.u32 %r10, [%r6+8]; ld.shared.u32 %r11, [%r6];
        add.u32 %r14, %r10, %r11; ld.shared.u32 %r12, [%r6+12]; ld.shared.u32 %r13, [%r6+4];
        mad.lo.u32 %r14, %r14, 3, %r12; xor.b32 %r14, %r14, %r13;)" +
                                               store_result("%r14")) +
                                    kernel("written", 1,
                                           "mov.u32 %r9, box;" + fill + R"(
        and.b32 %r6, %r4, 240; ld.shared.u32 %r10, [%r6]; ld.shared.u32 %r11, [%r6+4];
        bar.sync 0; st.shared.u32 [%r6+8], %r10; bar.sync 0;
        ld.shared.u32 %r12, [%r6+8]; ld.shared.u32 %r13, [%r6+12];
        add.u32 %r14, %r10, %r11; mad.lo.u32 %r14, %r14, 3, %r12; xor.b32 %r14, %r14, %r13;)" +
                                               store_result("%r14")) +
                                    kernel("moved", 1,
                                           "mov.u32 %r9, box;" + fill + R"(
        and.b32 %r6, %r4, 240; ld.shared.u32 %r10, [%r6]; ld.shared.u32 %r11, [%r6+4];
        xor.b32 %r6, %r6, 16; ld.shared.u32 %r12, [%r6+8]; ld.shared.u32 %r13, [%r6+12];
        add.u32 %r14, %r10, %r11; mad.lo.u32 %r14, %r14, 3, %r12; xor.b32 %r14, %r14, %r13;)" +
                                               store_result("%r14")) +
                                    kernel("beyond", 1, "mov.u32 %r9, box;" + fill + R"(
        ld.shared.u32 %r10, [%r4+0]; ld.shared.u32 %r11, [%r4+4]; ld.shared.u32 %r12, [%r4+8];
        ld.shared.u32 %r13, [%r4+12]; add.u32 %r14, %r10, %r11; add.u32 %r14, %r14, %r12;
        add.u32 %r14, %r14, %r13;)" + store_result("%r14"))));
  auto *out = device.array<uint32_t>(128);
  auto run = [&](const char *name) {
    return device.launch(program, name, {1}, {128}, Parameters().add(out));
  };
  auto box = [](uint32_t word) { return word * 77; };
  CHECK_OK(run("apart"));
  for (uint32_t t = 0; t < 128; ++t) {
    uint32_t w = t & 63;
    CHECK(out[t] == (((box(w + 2) + box(w)) * 3 + box(w + 3)) ^ box(w + 1)));
  }
  CHECK_OK(run("written"));
  for (uint32_t t = 0; t < 128; ++t) {
    uint32_t w = t & 60;
    CHECK(out[t] == (((box(w) + box(w + 1)) * 3 + box(w)) ^ box(w + 3)));
  }
  CHECK_OK(run("moved"));
  for (uint32_t t = 0; t < 128; ++t) {
    uint32_t w = t & 60, v = w ^ 4;
    CHECK(out[t] == (((box(w) + box(w + 1)) * 3 + box(v + 2)) ^ box(v + 3)));
  }
  CHECK_FAILS(run("beyond"), 700, "read of 4 bytes at shared address 0x200");
}

TEST(branches_that_compare) {
  Device device;
  auto program = device.load(module(kernel("moved", 2, R"(
        mov.u32 %r4, %r0; mov.u32 %r5, 1; setp.lt.u32 %p0, %r4, 20; mov.u32 %r4, 50;
        @%p0 bra A; add.u32 %r5, %r5, 2;
        A: setp.ge.s32 %p1, %r0, 10; mov.u32 %r6, %r4; @!%p1 bra B; add.u32 %r5, %r5, 4;
        B: setp.eq.u32 %p2, %r6, 50; @%p2 bra C; add.u32 %r5, %r5, 8;
        C: setp.ne.s64 %p3, %d1, 0; @%p3 bra D; add.u32 %r5, %r5, 16;
        D: add.u32 %r5, %r5, %r4;)" + store_result("%r5")) +
                                    kernel("counted", 2, R"(
        and.b32 %r7, %r0, 7; mov.u32 %r4, 0; mov.u32 %r5, 0;
        LOOP: add.u32 %r5, %r5, %r4; setp.lt.u32 %p0, %r4, %r7; add.u32 %r8, %r4, 1;
        mov.u32 %r4, %r8; @%p0 bra LOOP;)" + store_result("%r5")) +
                                    kernel("ordered", 2, R"(
        mul.wide.u32 %d4, %r0, 4; add.s64 %d5, %d1, %d4; ld.global.f32 %f0, [%d5];
        mov.u32 %r5, 0; setp.lt.f32 %p0, %f0, 0f40000000; @%p0 bra A; add.u32 %r5, %r5, 1;
        A: setp.geu.f32 %p1, %f0, 0f40000000; @%p1 bra B; add.u32 %r5, %r5, 2;
        B: setp.neu.f32 %p2, %f0, %f0; @!%p2 bra C; add.u32 %r5, %r5, 4;
        C: cvt.f64.f32 %d6, %f0; setp.gt.f64 %p3, %d6, 0d4000000000000000; @!%p3 bra D;
        add.u32 %r5, %r5, 8; D: cvt.u16.u32 %h0, %r0; setp.gt.s16 %p4, %h0, 40; @%p4 bra E;
        add.u32 %r5, %r5, 16; E:)" + store_result("%r5"))));
  auto *out = device.array<uint32_t>(64), *in = device.array<uint32_t>(64);
  auto run = [&](const char *name) {
    return device.launch(program, name, {1}, {64}, Parameters().add(out).add(in));
  };
  CHECK_OK(run("moved"));
  for (uint32_t t = 0; t < 64; ++t) CHECK(out[t] == 51u + (t < 20 ? 0u : 2u) + (t >= 10 ? 4u : 0u));
  CHECK_OK(run("counted"));
  for (uint32_t t = 0; t < 64; ++t) CHECK(out[t] == (t & 7) * ((t & 7) + 1) / 2);
  const float values[] = {1, 2, 3, __builtin_nanf("")};
  for (uint32_t t = 0; t < 64; ++t) std::memcpy(in + t, values + t % 4, 4);
  CHECK_OK(run("ordered"));
  for (uint32_t t = 0; t < 64; ++t) {
    const float x = values[t % 4];
    CHECK(out[t] == (x < 2 ? 0u : 1u) + (x < 2 ? 2u : 0u) + (x != x ? 4u : 0u) + (x > 2 ? 8u : 0u) +
                        (t > 40 ? 0u : 16u));
  }
}

TEST(loads_far_apart) {
  constexpr uint32_t kStep = 5000, kTurns = 9;
  Device device;
  auto program = device.load(module(kernel("k", 3, R"(
    mov.u32 %r4, %r0; mov.u32 %r10, 0; mul.wide.u32 %d8, %r0, 8; add.s64 %d8, %d1, %d8;
    cvt.u32.u64 %r7, %d2;
    LOOP: mul.wide.u32 %d4, %r4, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r5, [%d5];
    ld.global.u64 %d9, [%d8]; cvt.u32.u64 %r6, %d9; add.s64 %d8, %d8, 16000;
    add.u32 %r4, %r4, 5000; mad.lo.u32 %r10, %r10, 3, %r5; xor.b32 %r10, %r10, %r6;
    setp.lt.u32 %p0, %r4, %r7; @%p0 bra LOOP;)" + store_result("%r10"))));
  auto *out = device.array<uint32_t>(64), *in = device.array<uint32_t>(kStep * kTurns);
  for (uint32_t i = 0; i < kStep * kTurns; ++i) in[i] = i * 2654435761u;
  auto run = [&](uint64_t end) {
    return device.launch(program, "k", {1}, {64}, Parameters().add(out).add(in).add(end));
  };
  CHECK_OK(run(kStep * kTurns));
  for (uint32_t t = 0; t < 64; ++t) {
    uint32_t sum = 0;
    for (uint32_t turn = 0; turn < kTurns; ++turn)
      sum = (sum * 3 + in[t + turn * kStep]) ^ in[2 * t + turn * 4000];
    CHECK(out[t] == sum);
  }
  CHECK_FAILS(run(kStep * kTurns + 1), 700, "thread (0,0,0)", "read of 4 bytes");
}

// Indices of which only the first lane is made: blocks of every shape, of which some let thread
// numbers count up over a warp and some do not; edges within a warp; lanes that go different ways.
TEST(indices_that_count_up) {
  constexpr uint32_t kWords = 4096;
  Device device;
  const std::string index = R"(
    mov.u32 %r20, %tid.y; mov.u32 %r21, %ntid.x; mov.u32 %r22, %ctaid.x; mov.u32 %r23, %tid.x;
    mov.u32 %r24, %ntid.y; mad.lo.s32 %r25, %r22, %r24, %r20; mad.lo.s32 %r4, %r25, %r21, %r23;
    cvt.u32.u64 %r7, %d2;
  )";
  const std::string add_up = R"(
    mul.wide.s32 %d4, %r4, 4; add.s64 %d5, %d1, %d4; add.s64 %d6, %d0, %d4;
    ld.global.u32 %r10, [%d5]; ld.global.u32 %r11, [%d5+4]; mad.lo.u32 %r12, %r10, 3, %r11;
    st.global.u32 [%d6], %r12;
  )";
  auto program = device.load(
      module(kernel("edge", 3, index + "setp.ge.s32 %p0, %r4, %r7; @%p0 bra A;" + add_up + "A:") +
             kernel("inside", 3,
                    index + R"(
        setp.lt.s32 %p0, %r4, %r7; setp.gt.s32 %p1, 9, %r4; setp.eq.or.s32 %p1, %r4, 40, %p1;
        @!%p0 bra A; @%p1 bra A; setp.ne.u32 %p2, %r4, 77; @!%p2 bra A;)" +
                        add_up + "A:") +
             kernel("apart", 3, index + R"(
        add.s32 %r30, %r4, 5; and.b32 %r31, %r23, 1; setp.eq.u32 %p0, %r31, 0; @%p0 bra EVEN;
        sub.s32 %r32, %r30, 3; mul.wide.s32 %d4, %r32, 4; add.s64 %d5, %d1, %d4;
        ld.global.u32 %r10, [%d5]; mul.wide.s32 %d6, %r4, 4; add.s64 %d7, %d0, %d6;
        st.global.u32 [%d7], %r10; bra DONE;
        EVEN: mul.wide.s32 %d4, %r30, 4; add.s64 %d5, %d1, %d4; ld.global.u32 %r10, [%d5];
        mul.wide.s32 %d6, %r4, 4; add.s64 %d7, %d0, %d6; st.global.u32 [%d7], %r10; DONE:)") +
             kernel("turns", 3, index + R"(
        mov.u32 %r10, 0; mov.u32 %r11, 0;
        LOOP: shl.b32 %r26, %r22, 1; sub.s32 %r27, %r4, %r26; setp.gt.u32 %p0, %r11, %r23;
        @%p0 bra OUT; mul.wide.s32 %d4, %r27, 4; add.s64 %d5, %d1, %d4;
        @!%p0 ld.global.u32 %r12, [%d5+400]; add.u32 %r10, %r10, %r12; add.u32 %r11, %r11, 7;
        bra LOOP; OUT: mul.wide.s32 %d6, %r4, 4; add.s64 %d7, %d0, %d6;
        st.global.u32 [%d7], %r10;)") +
             kernel("stored", 3, index + R"(
        add.s32 %r30, %r4, 77; mul.wide.s32 %d6, %r4, 4; add.s64 %d7, %d0, %d6;
        st.global.u32 [%d7], %r30; st.global.u32 [%d7+8192], %r4;)") +
             kernel("wraps", 3, index + R"(
        add.s32 %r30, %r4, 2147483632; mul.wide.s32 %d4, %r30, 4; sub.s64 %d5, %d1, 8589934528;
        add.s64 %d5, %d5, %d4; setp.gt.s32 %p0, %r30, 0; @!%p0 bra A;
        ld.global.u32 %r10, [%d5]; mul.wide.s32 %d6, %r4, 4; add.s64 %d7, %d0, %d6;
        st.global.u32 [%d7], %r10; A:)")));
  auto *out = device.array<uint32_t>(kWords), *in = device.array<uint32_t>(kWords + 128);
  for (uint32_t i = 0; i < kWords + 128; ++i) in[i] = i * 2654435761u;
  struct Shape {
    uint32_t x, y;
  };
  for (auto [x, y] : {Shape{128, 1}, Shape{100, 1}, Shape{32, 4}, Shape{16, 6}, Shape{64, 2},
                      Shape{48, 2}, Shape{1, 37}}) {
    const uint32_t blocks = 5, all = blocks * x * y;
    auto run = [&](const char *name, uint64_t end) {
      for (uint32_t i = 0; i < kWords; ++i) out[i] = 1;
      return device.launch(program, name, {blocks}, {x, y}, Parameters().add(out).add(in).add(end));
    };
    auto sum = [&](uint32_t i) { return in[i] * 3 + in[i + 1]; };
    for (uint64_t end :
         {uint64_t{0}, uint64_t{41}, uint64_t{64}, uint64_t{all}, uint64_t{all + 9}}) {
      CHECK_OK(run("edge", end));
      for (uint32_t i = 0; i < kWords; ++i) CHECK(out[i] == (i < all && i < end ? sum(i) : 1));
      CHECK_OK(run("inside", end));
      for (uint32_t i = 0; i < kWords; ++i) {
        const bool made = i < all && i < end && i >= 9 && i != 40 && i != 77;
        CHECK(out[i] == (made ? sum(i) : 1));
      }
    }
    CHECK_OK(run("apart", 0));
    for (uint32_t i = 0; i < all; ++i) CHECK(out[i] == in[i % x % 2 ? i + 2 : i + 5]);
    CHECK_OK(run("turns", 0));
    for (uint32_t i = 0; i < all; ++i) {
      uint32_t total = 0;
      for (uint32_t k = 0; k <= i % x; k += 7) total += in[100 + i - i / (x * y) * 2];
      CHECK(out[i] == total);
    }
    CHECK_OK(run("stored", 0));
    for (uint32_t i = 0; i < all; ++i) CHECK(out[i] == i + 77 && out[i + 2048] == i);
    CHECK_OK(run("wraps", 0));
    for (uint32_t i = 0; i < all; ++i) CHECK(out[i] == (i < 16 ? in[i] : 1));
  }
  auto *end = in + kWords + 128;
  CHECK_FAILS(device.launch(program, "edge", {1}, {128},
                            Parameters().add(out).add(end - 37).add(uint64_t{128})),
              700, "thread (37,0,0)", "read of 4 bytes");
}
