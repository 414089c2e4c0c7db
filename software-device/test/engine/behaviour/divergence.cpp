// Lanes that go different ways, wait for one another, and come together.
#include <atomic>

#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

TEST(loops_of_different_length) {
  // Steps of the Collatz sequence of each thread's number.
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    add.s32 %r4, %r3, 1; mov.u32 %r5, 0;
    LOOP: setp.eq.u32 %p0, %r4, 1; @%p0 bra DONE;
    and.b32 %r6, %r4, 1; setp.eq.u32 %p1, %r6, 1; @%p1 bra ODD;
    shr.u32 %r4, %r4, 1; bra NEXT;
    ODD: mad.lo.s32 %r4, %r4, 3, 1;
    NEXT: add.s32 %r5, %r5, 1; bra LOOP;
    DONE: )" + store_result("%r5"))));
  constexpr unsigned kCount = 4096;
  auto *out = device.array<uint32_t>(kCount);
  CHECK_OK(device.launch(program, "k", {kCount / 128}, {128}, Parameters().add(out)));
  bool right = true;
  for (uint32_t i = 0; i < kCount; ++i) {
    uint32_t n = i + 1, steps = 0;
    for (; n != 1; ++steps) n = n & 1 ? 3 * n + 1 : n / 2;
    right &= out[i] == steps;
  }
  CHECK(right);
}

TEST(lanes_meet_again_after_a_branch) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    setp.lt.u32 %p0, %r0, 7; @%p0 bra A;
    mov.u32 %r4, 1; bra B;
    A: mov.u32 %r4, 2;
    B: activemask.b32 %r5;
    )" + store_result("%r5"))));
  auto *out = device.array<uint32_t>(32);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  for (int i = 0; i < 32; ++i) CHECK(out[i] == 0xffffffffu);
}

TEST(indexed_branch) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    and.b32 %r4, %r0, 3; mov.u32 %r5, 99;
    ts: .branchtargets L0, L1, L2, L3;
    brx.idx %r4, ts;
    L0: mov.u32 %r5, 10; bra END;
    L1: mov.u32 %r5, 11; bra END;
    L2: mov.u32 %r5, 12; bra END;
    L3: mov.u32 %r5, 13;
    END: )" + store_result("%r5"))));
  auto *out = device.array<uint32_t>(32);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == 10 + i % 4);
}

TEST(spin_lock_between_lanes_warps_and_blocks) {
  for (unsigned workers : {1u, 2u}) {
    Device device(workers);
    auto program = device.load(module(kernel("k", 2, R"(
      TRY: atom.global.cas.b32 %r4, [%d0], 0, 1; setp.ne.u32 %p0, %r4, 0; @%p0 bra TRY;
      ld.volatile.global.u32 %r5, [%d1]; add.s32 %r5, %r5, 1; st.volatile.global.u32 [%d1], %r5;
      membar.gl; atom.global.exch.b32 %r6, [%d0], 0;)")));
    auto *lock = device.array<uint32_t>(1), *count = device.array<uint32_t>(1);
    CHECK_OK(device.launch(program, "k", {4}, {128}, Parameters().add(lock).add(count)));
    CHECK(*count == 512);
  }
}

TEST(a_warp_waits_for_a_flag_of_another) {
  Device device(1);
  auto program = device.load(module(".shared .align 4 .u32 flag;\n" + kernel("k", 1, R"(
      setp.eq.u32 %p0, %r0, 0; @%p0 st.volatile.shared.u32 [flag], 0; bar.sync 0;
      setp.ge.u32 %p1, %r0, 32; @%p1 bra SET;
      WAIT: ld.volatile.shared.u32 %r4, [flag]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT;
      bra END;
      SET: setp.ne.u32 %p3, %r0, 63; @%p3 bra END;
      st.volatile.shared.u32 [flag], 17; mov.u32 %r4, 17;
      END: )" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(64);
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out)));
  for (int i = 0; i < 32; ++i) CHECK(out[i] == 17);
}

TEST(blocks_that_wait_for_the_one_before) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    setp.ne.u32 %p0, %r0, 0; @%p0 bra END;
    WAIT: ld.acquire.gpu.global.u32 %r4, [%d0]; setp.ne.u32 %p1, %r4, %r1; @%p1 bra WAIT;
    add.s32 %r4, %r4, 1; st.release.gpu.global.u32 [%d0], %r4;
    END:)")));
  auto *count = device.array<uint32_t>(1);
  CHECK_OK(device.launch(program, "k", {10000}, {32}, Parameters().add(count)));
  CHECK(*count == 10000);
}

TEST(blocks_that_wait_for_a_later_one) {
  Device device(1);
  auto program = device.load(module(kernel("k", 1, R"(
    mov.u32 %r5, %nctaid.x; sub.s32 %r5, %r5, 1; sub.s32 %r5, %r5, %r1;
    WAIT: ld.volatile.global.u32 %r4, [%d0]; setp.ne.u32 %p1, %r4, %r5; @%p1 bra WAIT;
    add.s32 %r4, %r4, 1; st.volatile.global.u32 [%d0], %r4;)")));
  auto *count = device.array<uint32_t>(1);
  CHECK_OK(device.launch(program, "k", {6}, {1}, Parameters().add(count)));
  CHECK(*count == 6);
}

TEST(a_grid_that_synchronises) {
  // What cooperative groups compile to: a counter in the workspace that %envreg names.
  for (unsigned workers : {1u, 2u}) {
    Device device(workers);
    auto program = device.load(module(kernel("k", 1, R"(
      mov.u32 %r4, %envreg2; cvt.u64.u32 %d4, %r4; mov.u32 %r4, %envreg1; cvt.u64.u32 %d5, %r4;
      shl.b64 %d5, %d5, 32; or.b64 %d4, %d4, %d5;
      setp.ne.u64 %p0, %d4, 0; @%p0 bra GO; trap;
      GO: atom.global.add.u32 %r5, [%d0+64], 1;
      barrier.sync 0;
      setp.ne.u32 %p1, %r0, 0; @%p1 bra WAITED;
      atom.add.release.gpu.u32 %r6, [%d4+4], 1; mov.u32 %r8, %nctaid.x;
      SPIN: ld.acquire.gpu.u32 %r7, [%d4+4]; setp.lt.u32 %p2, %r7, %r8; @%p2 bra SPIN;
      WAITED: barrier.sync 0;
      ld.volatile.global.u32 %r9, [%d0+64]; atom.global.min.u32 %r10, [%d0], %r9;)")));
    auto *out = device.array<uint32_t>(32);
    out[0] = 0xffffffffu;
    CHECK_OK(device.launch(program, "k", {20}, {64}, Parameters().add(out), 0, true));
    CHECK(out[0] == 20 * 64);
  }
}

TEST(an_endless_loop_can_be_abandoned) {
  auto device = std::make_unique<Device>();
  auto program = device->load(module(kernel("k", 0, "L: bra L;")));
  softdev::Launch launch;
  launch.kernel = program->find_kernel("k");
  CHECK_OK(launch.kernel->translate());
  launch.keep = program;
  launch.grid = {8, 1, 1};
  launch.block = {32, 1, 1};
  std::atomic<int> code{-1};
  launch.done = [&](softdev::Status status) { code = status.code; };
  device->engine->submit(std::move(launch));
  device->engine.reset();  // joins the workers
  CHECK(code == 719);
}

// ---- barriers

TEST(barrier_orders_shared_memory) {
  Device device;
  auto program = device.load(module(".shared .align 4 .b8 buffer[1024];\n" + kernel("k", 1, R"(
      mov.u32 %r4, buffer; shl.b32 %r5, %r0, 2; add.s32 %r5, %r4, %r5; st.shared.u32 [%r5], %r0;
      bar.sync 0;
      sub.s32 %r6, 255, %r0; shl.b32 %r6, %r6, 2; add.s32 %r6, %r4, %r6; ld.shared.u32 %r7, [%r6];
      )" + store_result("%r7"))));
  auto *out = device.array<uint32_t>(512);
  CHECK_OK(device.launch(program, "k", {2}, {256}, Parameters().add(out)));
  bool right = true;
  for (uint32_t i = 0; i < 512; ++i) right &= out[i] == 255 - i % 256;
  CHECK(right);
}

TEST(barrier_reductions) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    and.b32 %r4, %r0, 3; setp.eq.u32 %p0, %r4, 0;
    barrier.red.popc.u32 %r5, 0, %p0;
    barrier.red.and.pred %p1, 0, %p0; selp.u32 %r6, 1000, 0, %p1;
    barrier.red.or.pred %p2, 0, !%p0; selp.u32 %r7, 10000, 0, %p2;
    add.s32 %r5, %r5, %r6; add.s32 %r5, %r5, %r7;
    )" + store_result("%r5"))));
  auto *out = device.array<uint32_t>(80);
  CHECK_OK(device.launch(program, "k", {1}, {80}, Parameters().add(out)));
  for (int i = 0; i < 80; ++i) CHECK(out[i] == 20 + 10000);
}

TEST(named_barriers_between_producer_and_consumer) {
  Device device;
  auto program = device.load(module(".shared .align 4 .u32 box;\n" + kernel("k", 1, R"(
      mov.u32 %r4, 0;
      setp.ge.u32 %p0, %r0, 32; @%p0 bra CONSUMER;
      st.shared.u32 [box], 42; bar.arrive 3, 64; bra END;
      CONSUMER: bar.sync 3, 64; ld.shared.u32 %r4, [box];
      END: )" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(64);
  CHECK_OK(device.launch(program, "k", {1}, {64}, Parameters().add(out)));
  CHECK(out[40] == 42);
}

TEST(threads_that_leave_do_not_hold_a_barrier) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    setp.lt.u32 %p0, %r0, 50; @%p0 exit;
    bar.sync 0; mov.u32 %r4, 5;)" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(96);
  CHECK_OK(device.launch(program, "k", {1}, {96}, Parameters().add(out)));
  CHECK(out[49] == 0 && out[50] == 5 && out[95] == 5);
}

TEST(a_barrier_nobody_completes_is_reported) {
  Device device;
  auto program = device.load(module(kernel("k", 0, "bar.sync 1, 96;")));
  CHECK_FAILS(device.launch(program, "k", {1}, {64}, Parameters()), 702, "kernel k", "barrier");
}

// ---- between lanes

TEST(shuffle_within_halves_that_run_apart) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    setp.lt.u32 %p0, %r0, 16; @%p0 bra LOW;
    shfl.sync.bfly.b32 %r4, %r0, 1, 31, 0xffff0000; bra END;
    LOW: shfl.sync.down.b32 %r4|%p1, %r0, 4, 0x101f, 0x0000ffff;
    @!%p1 add.s32 %r4, %r4, 100;
    END: )" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(32);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == (i >= 16 ? i ^ 1 : i < 12 ? i + 4 : i + 100));
}

TEST(shuffle_waits_for_lanes_on_another_way) {
  // The full mask, reached at different times: everybody gets the value of lane 31.
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    mov.u32 %r5, %r0;
    LOOP: setp.eq.u32 %p0, %r5, 0; @%p0 bra OUT; sub.s32 %r5, %r5, 1; bra LOOP;
    OUT: shfl.sync.idx.b32 %r4, %r0, 31, 31, 0xffffffff;
    )" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(32);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  for (uint32_t i = 0; i < 32; ++i) CHECK(out[i] == 31);
}

TEST(warp_barriers_at_different_places) {
  Device device;
  auto program = device.load(module(".shared .align 4 .u32 box;\n" + kernel("k", 1, R"(
      mov.u32 %r4, 0;
      setp.lt.u32 %p0, %r0, 5; @%p0 bra A;
      bar.warp.sync 0xffffffff; ld.volatile.shared.u32 %r4, [box]; bra END;
      A: st.volatile.shared.u32 [box], 9; bar.warp.sync 0xffffffff;
      END: )" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(32);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  for (int i = 5; i < 32; ++i) CHECK(out[i] == 9);
}

TEST(votes_matches_and_reductions) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    setp.ge.u32 %p0, %r0, 20;
    vote.sync.ballot.b32 %r4, %p0, 0xffffffff;
    vote.sync.any.pred %p1, %p0, 0xffffffff; vote.sync.all.pred %p2, %p0, 0xffffffff;
    vote.sync.uni.pred %p3, %p0, 0xffffffff;
    selp.u32 %r5, 1, 0, %p1; selp.u32 %r6, 2, 0, %p2; selp.u32 %r7, 4, 0, %p3;
    or.b32 %r5, %r5, %r6; or.b32 %r5, %r5, %r7;
    and.b32 %r8, %r0, 7; match.any.sync.b32 %r9, %r8, 0xffffffff;
    match.all.sync.b32 %r10|%p4, %r1, 0xffffffff; selp.u32 %r11, 1, 0, %p4;
    redux.sync.add.u32 %r12, %r0, 0xffffffff; redux.sync.max.s32 %r13, %r0, 0xffffffff;
    elect.sync %r14|%p5, 0xffffffff; selp.u32 %r15, 1, 0, %p5;
    mul.wide.u32 %d60, %r0, 32; add.s64 %d60, %d0, %d60;
    st.global.v4.u32 [%d60], {%r4, %r5, %r9, %r10};
    st.global.v4.u32 [%d60+16], {%r11, %r12, %r13, %r15};)")));
  auto *out = device.array<uint32_t>(32 * 8);
  CHECK_OK(device.launch(program, "k", {1}, {32}, Parameters().add(out)));
  for (uint32_t i = 0; i < 32; ++i) {
    const uint32_t *r = out + 8 * i;
    CHECK(r[0] == 0xfff00000u && r[1] == 1);
    CHECK(r[2] == 0x01010101u << (i % 8) && r[3] == 0xffffffffu && r[4] == 1);
    CHECK(r[5] == 496 && r[6] == 31 && r[7] == (i == 0 ? 1u : 0u));
  }
}
