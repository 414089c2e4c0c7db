// The stack of a thread: alloca, calls through pointers, and what happens when it is full.
#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

TEST(alloca_in_diverging_lanes) {
  // Each lane takes (lane % 7 + 1) words in a loop of its own length, and reads them all back.
  Device device;
  auto program = device.load(module(R"(
    .func (.param .b32 out) sum(.param .b64 p, .param .b32 n) {
      .reg .pred %p<2>; .reg .b32 %r<8>; .reg .b64 %d<8>;
      ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, 0; mov.u32 %r3, 0;
      LOOP: ld.u32 %r4, [%d1]; add.s32 %r2, %r2, %r4; add.s64 %d1, %d1, 4; add.s32 %r3, %r3, 1;
      setp.lt.u32 %p1, %r3, %r1; @%p1 bra LOOP;
      st.param.b32 [out], %r2; ret; }
    )" + kernel("k", 1, R"(
    stacksave.u64 %d10; rem.u32 %r4, %r0, 7; add.s32 %r4, %r4, 1; mul.wide.u32 %d4, %r4, 4;
    and.b32 %r5, %r0, 1; setp.eq.u32 %p0, %r5, 0; @%p0 bra EVEN;
    alloca.u64 %d5, %d4, 16; bra FILLED;
    EVEN: alloca.u64 %d5, %d4; stacksave.u64 %d11; alloca.u64 %d6, 64, 64; st.u32 [%d6+60], 1;
    and.b64 %d7, %d6, 63; setp.ne.u64 %p3, %d7, 0; @%p3 trap; stackrestore.u64 %d11;
    FILLED: mov.u32 %r6, 0; mov.u64 %d8, %d5;
    FILL: add.s32 %r7, %r6, %r0; st.local.u32 [%d8], %r7; add.s64 %d8, %d8, 4; add.s32 %r6, %r6, 1;
    setp.lt.u32 %p1, %r6, %r4; @%p1 bra FILL;
    { .param .b64 a; st.param.b64 [a], %d5; .param .b32 b; st.param.b32 [b], %r4; .param .b32 c;
      call (c), sum, (a, b); ld.param.b32 %r8, [c]; }
    stackrestore.u64 %d10; stacksave.u64 %d12; setp.ne.u64 %p2, %d12, %d10; @%p2 trap;
    )" + store_result("%r8"))));
  auto *out = device.array<uint32_t>(64);
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out)));
  for (uint32_t i = 0; i < 64; ++i) {
    uint32_t n = i % 7 + 1;
    CHECK(out[i] == n * i + n * (n - 1) / 2);
  }
}

TEST(a_full_stack_is_reported) {
  Device device;
  auto program = device.load(
      module(kernel("much", 1, "alloca.u64 %d4, %d0; st.u8 [%d4], %h0;") + kernel("often", 0, R"(
    mov.u32 %r4, 0; L: alloca.u64 %d4, 256; add.s32 %r4, %r4, 1; setp.lt.u32 %p0, %r4, 1000;
    @%p0 bra L;)") +
             kernel("wrong", 0, "stacksave.u64 %d4; add.s64 %d4, %d4, 8; stackrestore.u64 %d4;") +
             R"(
    .func (.param .b32 out) deep(.param .b32 n) {
      .reg .pred %p<2>; .reg .b32 %r<4>; .local .align 4 .b8 room[64];
      ld.param.u32 %r1, [n]; setp.eq.u32 %p1, %r1, 0; @%p1 bra DONE; sub.s32 %r1, %r1, 1;
      { .param .b32 a; st.param.b32 [a], %r1; .param .b32 b; call (b), deep, (a); ld.param.b32 %r1, [b]; }
      add.s32 %r1, %r1, 1;
      DONE: st.param.b32 [out], %r1; ret; }
    )" + kernel("calls", 1, R"(
    cvt.u32.u64 %r4, %d0;
    { .param .b32 a; st.param.b32 [a], %r4; .param .b32 b; call (b), deep, (a); ld.param.b32 %r5, [b]; }
    setp.ne.u32 %p0, %r5, %r4; @%p0 trap;)")));
  auto run = [&](const char *name, uint64_t size) {
    return device.launch(program, name, {1}, {32}, Parameters().add(size));
  };
  CHECK_OK(run("much", 1024));
  CHECK_FAILS(run("much", 1 << 20), 714, "alloca", "stack");
  CHECK_FAILS(run("much", ~uint64_t{0}), 714, "alloca");
  CHECK_FAILS(device.launch(program, "often", {1}, {32}, Parameters()), 714, "stack");
  CHECK_FAILS(device.launch(program, "wrong", {1}, {32}, Parameters()), 714, "stackrestore");
  CHECK_OK(run("calls", 10));
  CHECK_FAILS(run("calls", 1000), 714, "function deep", "stack");
  device.stack_bytes = 64 << 10;  // as cuCtxSetLimit does
  CHECK_OK(run("calls", 1000));
}

TEST(calls_by_pointer_with_structures) {
  // Lanes call different functions, which take and give structures and call on.
  Device device;
  auto program = device.load(module(R"(
    .func (.param .align 8 .b8 out[24]) one(.param .align 8 .b8 in[24], .param .b32 n);
    .func (.param .align 8 .b8 out[24]) two(.param .align 8 .b8 in[24], .param .b32 n);
    .global .align 8 .u64 table[2] = {one, two};
    .func (.param .align 8 .b8 out[24]) one(.param .align 8 .b8 in[24], .param .b32 n) {
      .reg .b64 %d<8>; .reg .b32 %r<2>;
      ld.param.b64 %d1, [in]; ld.param.b64 %d2, [in+8]; ld.param.b64 %d3, [in+16];
      st.param.b64 [out], %d3; st.param.b64 [out+8], %d1; st.param.b64 [out+16], %d2; ret; }
    .func (.param .align 8 .b8 out[24]) two(.param .align 8 .b8 in[24], .param .b32 n) {
      .reg .b64 %d<8>; .reg .b32 %r<4>; .reg .pred %p<2>;
      ld.param.b64 %d1, [in]; ld.param.b64 %d2, [in+8]; ld.param.b64 %d3, [in+16]; ld.param.b32 %r1, [n];
      mov.u64 %d4, table; setp.eq.u32 %p1, %r1, 0; @!%p1 add.s64 %d4, %d4, 8; ld.global.u64 %d5, [%d4];
      sub.s32 %r2, %r1, 1;
      { .param .align 8 .b8 a[24]; st.param.b64 [a], %d1; st.param.b64 [a+8], %d2; st.param.b64 [a+16], %d3;
        .param .b32 b; st.param.b32 [b], %r2; .param .align 8 .b8 r[24];
        proto : .callprototype (.param .align 8 .b8 _[24]) _ (.param .align 8 .b8 _[24], .param .b32 _);
        call (r), %d5, (a, b), proto;
        ld.param.b64 %d1, [r]; ld.param.b64 %d2, [r+8]; ld.param.b64 %d3, [r+16]; }
      add.s64 %d1, %d1, 1; st.param.b64 [out], %d1; st.param.b64 [out+8], %d2; st.param.b64 [out+16], %d3; ret; }
    )" + kernel("k", 1, R"(
    mov.u64 %d4, table; and.b32 %r4, %r0, 1; mul.wide.u32 %d5, %r4, 8; add.s64 %d4, %d4, %d5;
    ld.global.u64 %d5, [%d4]; cvt.u64.u32 %d6, %r0; shl.b64 %d7, %d6, 8; shl.b64 %d8, %d6, 16;
    shr.u32 %r5, %r0, 1; and.b32 %r5, %r5, 3;
    { .param .align 8 .b8 a[24]; st.param.b64 [a], %d6; st.param.b64 [a+8], %d7; st.param.b64 [a+16], %d8;
      .param .b32 b; st.param.b32 [b], %r5; .param .align 8 .b8 r[24];
      proto : .callprototype (.param .align 8 .b8 _[24]) _ (.param .align 8 .b8 _[24], .param .b32 _);
      call (r), %d5, (a, b), proto; ld.param.b64 %d9, [r]; ld.param.b64 %d10, [r+8]; ld.param.b64 %d11, [r+16]; }
    mul.wide.u32 %d12, %r0, 24; add.s64 %d12, %d0, %d12; st.global.u64 [%d12], %d9;
    st.global.u64 [%d12+8], %d10; st.global.u64 [%d12+16], %d11;)")));
  auto *out = device.array<uint64_t>(64 * 3);
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out)));
  bool right = true;
  for (uint64_t i = 0; i < 64; ++i) {
    uint64_t added = i & 1 ? (i >> 1 & 3) + 1 : 0;
    right &= out[3 * i] == (i << 16) + added && out[3 * i + 1] == i && out[3 * i + 2] == i << 8;
  }
  CHECK(right);
}

TEST(a_launch_that_takes_too_long) {
  Device device(1);
  device.limit_ns = 20'000'000;
  auto program = device.load(module(".shared .align 8 .b64 bar;\n" +
                                    kernel("loop", 0, "L: bra L;") + kernel("wait", 0, R"(
    mbarrier.init.shared.b64 [bar], 64; mbarrier.arrive.shared.b64 %d4, [bar];
    L: mbarrier.try_wait.shared.b64 %p0, [bar], %d4; @!%p0 bra L;)") +
                                    kernel("fine", 0, "nanosleep.u32 100;")));
  CHECK_OK(device.launch(program, "fine", {4}, {64}, Parameters()));
  CHECK_FAILS(device.launch(program, "loop", {4}, {64}, Parameters()), 702, "kernel loop",
              "seconds", "PTX line", "bra");
  CHECK_FAILS(device.launch(program, "wait", {1}, {32}, Parameters()), 702, "kernel wait",
              "seconds");
  CHECK_OK(device.launch(program, "fine", {4}, {64}, Parameters()));
}

TEST(registers_without_meaning_here) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    mov.u32 %r4, %pm0; mov.u32 %r5, %pm7; mov.u64 %d4, %pm3_64; mov.u32 %r6, %envreg0;
    mov.u32 %r7, %envreg31; mov.u64 %d5, %current_graph_exec; mov.u32 %r8, %tid.w;
    mov.v4.u32 {%r10, %r11, %r12, %r13}, %ntid; mov.u64 %d6, %gridid; setp.eq.u64 %p0, %d6, 0; @%p0 trap;
    or.b32 %r4, %r4, %r5; or.b32 %r4, %r4, %r6; or.b32 %r4, %r4, %r7; or.b32 %r4, %r4, %r8;
    cvt.u32.u64 %r9, %d4; or.b32 %r4, %r4, %r9; cvt.u32.u64 %r9, %d5; or.b32 %r4, %r4, %r9;
    mov.u16 %h1, %tid.x; cvt.u32.u16 %r14, %h1; mov.u32 %r15, %clock; mov.u32 %r16, %clock_hi;
    mov.u64 %d7, %clock64; mov.u64 %d8, %globaltimer; mov.u32 %r17, %globaltimer_lo;
    mul.wide.u32 %d9, %r0, 32; add.s64 %d9, %d0, %d9;
    st.global.v4.u32 [%d9], {%r4, %r10, %r11, %r12}; st.global.v2.u32 [%d9+16], {%r13, %r14};)")));
  auto *out = device.array<uint32_t>(8 * 6);
  CHECK_OK(device.launch(program, "k", {1}, {3, 2, 1}, Parameters().add(out)));
  for (uint32_t i = 0; i < 6; ++i) {
    const uint32_t *r = out + 8 * i;
    if (i < 3) CHECK(r[0] == 0 && r[1] == 3 && r[2] == 2 && r[3] == 1 && r[4] == 0 && r[5] == i);
  }
}

TEST(reductions_of_single_precision) {
  Device device;
  auto program = device.load(module(kernel("k", 2, R"(
    mul.wide.u32 %d4, %r0, 4; add.s64 %d4, %d1, %d4; ld.global.f32 %f1, [%d4];
    redux.sync.min.f32 %f2, %f1, -1; redux.sync.max.f32 %f3, %f1, -1;
    redux.sync.min.abs.f32 %f4, %f1, -1; redux.sync.max.abs.NaN.f32 %f5, %f1, -1;
    st.global.v4.f32 [%d0], {%f2, %f3, %f4, %f5};)")));
  auto *out = device.array<uint32_t>(4);
  auto *in = device.array<float>(32);
  for (int i = 0; i < 32; ++i) in[i] = static_cast<float>(i - 20) * 1.5f + 0.25f;
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out).add(in)));
  auto got = [&](int i) {
    float value;
    std::memcpy(&value, out + i, 4);
    return value;
  };
  CHECK(got(0) == -29.75f && got(1) == 16.75f && got(2) == 0.25f && got(3) == 29.75f);
  in[7] = -__builtin_nanf("");
  in[20] = -0.0f;
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out).add(in)));
  CHECK(got(0) == -29.75f && got(1) == 16.75f && out[2] == 0 && out[3] == 0x7fffffff);
}

TEST(exchanges_that_name_no_lanes) {
  Device device;
  auto program = device.load(".version 6.0\n.target sm_60\n.address_size 64\n" + (kernel("k", 1, R"(
    mov.u32 %r5, 0; setp.lt.u32 %p0, %r0, 12; @%p0 bra LOW; bra END;
    LOW: setp.lt.u32 %p1, %r0, 5; vote.ballot.b32 %r4, %p1; vote.all.pred %p2, %p0;
    shfl.bfly.b32 %r6|%p3, %r0, 1, 31; shl.b32 %r5, %r6, 16; or.b32 %r5, %r5, %r4; @!%p2 trap;
    END: )" + store_result("%r5"))));
  auto *out = device.array<uint32_t>(32);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i < 12 ? (i ^ 1) << 16 | 0x1f : 0));
}

TEST(address_spaces_of_generic_addresses) {
  Device device;
  auto program = device.load(module(
      ".const .align 8 .u64 constant; .global .align 8 .u64 global; .shared .align 8 .u64 shared;\n"
      ".visible .entry k(.param .u64 p0) { .reg .pred %p<2>; .reg .b32 %r<4>; .reg .b64 %d<8>;"
      ".local .align 8 .u64 local; ld.param.u64 %d0, [p0];"
      "cvta.const.u64 %d1, constant; cvta.global.u64 %d2, global; cvta.shared.u64 %d3, shared;"
      "cvta.local.u64 %d4, local; mov.u64 %d5, p0; cvta.param.u64 %d5, %d5;" +
      [] {
        std::string text;
        int at = 0;
        for (const char *space : {"const", "global", "shared", "local", "param", "shared::cta",
                                  "shared::cluster", "param::entry"})
          for (int address = 1; address <= 5; ++address)
            text += std::string("isspacep.") + space + " %p1, %d" + std::to_string(address) +
                    "; selp.u32 %r1, 1, 0, %p1; st.global.u32 [%d0+" + std::to_string(4 * at++) +
                    "], %r1;";
        return text;
      }() +
      "ret; }"));
  auto *out = device.array<uint32_t>(40);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  const int want[8] = {0, 1, 2, 3, 4, 2, 2, 4};  // which address each space holds
  for (int space = 0; space < 8; ++space)
    for (int address = 0; address < 5; ++address)
      CHECK(out[5 * space + address] == (want[space] == address ? 1u : 0u));
}
