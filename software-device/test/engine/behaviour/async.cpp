// Asynchronous copies, and barriers in shared memory.
#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

TEST(asynchronous_copies_are_checked) {
  Device device;
  auto program = device.load(module(".shared .align 16 .b8 buffer[64];\n" + kernel("k", 2, R"(
    mov.u32 %r4, buffer; cvt.u32.u64 %r5, %d1; add.s32 %r4, %r4, %r5;
    cp.async.ca.shared.global [%r4], [%d0], 8;)") +
                                    kernel("limited", 2, R"(
    mov.u32 %r4, buffer; cvt.u32.u64 %r5, %d1;
    cp.async.cg.shared.global [%r4], [%d0], 16, %r5;)")));
  auto *in = device.array<uint8_t>(64);
  auto run = [&](const char *name, uint64_t from, uint64_t other) {
    return device.launch(program, name, {1}, {1}, Parameters().add(from).add(other));
  };
  auto good = reinterpret_cast<uint64_t>(in);
  CHECK_OK(run("k", good, 56));
  CHECK_FAILS(run("k", good, 64), 700, "kernel k", "shared", "cp.async");
  CHECK_FAILS(run("k", good, 4), 716, "misaligned");
  CHECK_FAILS(run("k", good + 4, 0), 716, "misaligned");
  CHECK_FAILS(run("k", 4096, 0), 700, "global", "cp.async");
  // What is not read need not be there.
  CHECK_OK(run("limited", 4096, 0));
  CHECK_FAILS(run("limited", 4096, 1), 700, "global");
  CHECK_FAILS(run("limited", good + 4, 4), 716, "misaligned");
}

TEST(phases_of_an_mbarrier) {
  Device device;
  auto program = device.load(module(".shared .align 8 .b64 bar;\n" + kernel("k", 1, R"(
    mov.u32 %r4, bar; mov.u32 %r20, 0;
    mbarrier.init.shared.b64 [%r4], 3;
    mbarrier.test_wait.parity.shared.b64 %p1, [%r4], 1; @%p1 or.b32 %r20, %r20, 1;
    mbarrier.test_wait.parity.shared.b64 %p1, [%r4], 0; @!%p1 or.b32 %r20, %r20, 2;
    mbarrier.arrive.shared.b64 %d4, [%r4];
    mbarrier.pending_count.b64 %r5, %d4;
    mbarrier.arrive.noComplete.shared.b64 %d5, [bar], 1;
    mbarrier.pending_count.b64 %r6, %d5;
    mbarrier.test_wait.shared.b64 %p1, [%r4], %d5; @!%p1 or.b32 %r20, %r20, 4;
    // a drop: it arrives, and the next phases expect one less
    mbarrier.arrive_drop.release.cta.shared::cta.b64 %d6, [%r4];
    mbarrier.test_wait.shared.b64 %p1, [%r4], %d4; @%p1 or.b32 %r20, %r20, 8;
    mbarrier.try_wait.acquire.cta.shared::cta.b64 %p1, [%r4], %d6; @%p1 or.b32 %r20, %r20, 16;
    mbarrier.try_wait.parity.shared.b64 %p1, [%r4], 0, 1000; @%p1 or.b32 %r20, %r20, 32;
    mbarrier.try_wait.parity.shared.b64 %p1, [%r4], 1, 1000; @!%p1 or.b32 %r20, %r20, 64;
    mbarrier.arrive.shared.b64 %d7, [%r4], 2;
    mbarrier.pending_count.b64 %r7, %d7;
    mbarrier.test_wait.parity.acquire.cta.shared.b64 %p1, [%r4], 1; @%p1 or.b32 %r20, %r20, 128;
    // bytes count as arrivals do
    mov.u64 %d10, bar; cvta.shared.u64 %d10, %d10;
    mbarrier.arrive.expect_tx.shared.b64 %d8, [%r4], 100;
    mbarrier.arrive.b64 _, [%d10];
    mbarrier.test_wait.b64 %p1, [%d10], %d8; @!%p1 or.b32 %r20, %r20, 256;
    mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r4], 60;
    mbarrier.test_wait.shared.b64 %p1, [%r4], %d8; @!%p1 or.b32 %r20, %r20, 512;
    mbarrier.complete_tx.shared::cluster.b64 [%r4], 40;
    mbarrier.test_wait.shared.b64 %p1, [%r4], %d8; @%p1 or.b32 %r20, %r20, 1024;
    // bytes may come before they are expected
    mbarrier.complete_tx.shared.b64 [%r4], 8; mbarrier.arrive.shared.b64 %d8, [%r4], 2;
    mbarrier.test_wait.shared.b64 %p1, [%r4], %d8; @!%p1 or.b32 %r20, %r20, 2048;
    mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r4], 8;
    mbarrier.test_wait.shared.b64 %p1, [%r4], %d8; @%p1 or.b32 %r20, %r20, 4096;
    // copies that were made arrive
    cp.async.mbarrier.arrive.shared.b64 [%r4];
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r4];
    mbarrier.arrive.shared::cluster.b64 _, [%r4];
    mbarrier.test_wait.parity.shared.b64 %p1, [%r4], 0; @%p1 or.b32 %r20, %r20, 8192;
    mbarrier.inval.shared.b64 [%r4];
    st.global.v4.u32 [%d0], {%r20, %r5, %r6, %r7};)")));
  auto *out = device.array<uint32_t>(4);
  CHECK_OK(device.launch(program, "k", {1}, {1}, Parameters().add(out)));
  CHECK(out[0] == 16383);
  CHECK(out[1] == 3 && out[2] == 2 && out[3] == 2);
}

TEST(warps_take_turns_by_mbarriers) {
  // Warp 0 fills a slot per round, the others read it; every wait may be long.
  for (const char *wait : {"test_wait", "try_wait"}) {
    Device device(1);
    auto program =
        device.load(module(".shared .align 8 .b64 full; .shared .align 8 .b64 empty;"
                           ".shared .align 4 .u32 slot;\n" +
                           kernel("k", 1, std::string(R"(
      setp.ne.u32 %p0, %r0, 0; @%p0 bra READY;
      mbarrier.init.shared.b64 [full], 32; mbarrier.init.shared.b64 [empty], 64;
      READY: bar.sync 0; mov.u32 %r4, 0; mov.u32 %r5, 0;
      setp.ge.u32 %p1, %r0, 32; @%p1 bra READER;
      WRITER: and.b32 %r6, %r4, 1; xor.b32 %r6, %r6, 1;
      W1: mbarrier.)") + wait + R"(.parity.shared.b64 %p2, [empty], %r6; @!%p2 bra W1;
      setp.ne.u32 %p3, %r0, 0; @%p3 bra W2; mad.lo.u32 %r7, %r4, %r4, 5; st.shared.u32 [slot], %r7;
      W2: mbarrier.arrive.shared.b64 %d4, [full];
      add.s32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 50; @%p4 bra WRITER; bra END;
      READER: and.b32 %r6, %r4, 1;
      R1: mbarrier.)" + wait + R"(.parity.shared.b64 %p2, [full], %r6; @!%p2 bra R1;
      ld.shared.u32 %r7, [slot]; add.s32 %r5, %r5, %r7; mbarrier.arrive.shared.b64 %d4, [empty];
      add.s32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, 50; @%p4 bra READER;
      END: )" + store_result("%r5"))));
    auto *out = device.array<uint32_t>(96);
    CHECK_OK(device.launch(program, "k", {1}, {96}, Parameters().add(out)));
    uint32_t sum = 0;
    for (uint32_t i = 0; i < 50; ++i) sum += i * i + 5;
    for (int i = 0; i < 96; ++i) CHECK(out[i] == (i < 32 ? 0 : sum));
  }
}

TEST(a_wait_gives_up_when_others_need_the_thread) {
  // Warp 1 spins until warp 0, whose try_wait cannot succeed before, has set a flag.
  Device device(1);
  auto program = device.load(
      module(".shared .align 8 .b64 bar; .shared .align 4 .u32 flag;\n" + kernel("k", 1, R"(
    mov.u32 %r4, 0;
    setp.ne.u32 %p0, %r0, 0; @%p0 bra READY;
    mbarrier.init.shared.b64 [bar], 1; st.shared.u32 [flag], 0;
    READY: bar.sync 0; setp.ge.u32 %p1, %r0, 32; @%p1 bra OTHER;
    mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @%p2 trap;
    st.volatile.shared.u32 [flag], 1;
    AGAIN: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra AGAIN; mov.u32 %r4, 7;
    bra END;
    OTHER: ld.volatile.shared.u32 %r5, [flag]; setp.eq.u32 %p3, %r5, 0; @%p3 bra OTHER;
    setp.ne.u32 %p4, %r0, 32; @%p4 bra END; mbarrier.arrive.shared.b64 %d4, [bar];
    END: )" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(128);
  CHECK_OK(device.launch(program, "k", {2}, {64}, Parameters().add(out)));
  for (int i = 0; i < 64; ++i) CHECK(out[i] == (i < 32 ? 7 : 0));
}

TEST(misused_mbarriers_are_reported) {
  Device device;
  auto program = device.load(module(
      ".shared .align 8 .b64 bar;\n" +
      kernel("unborn", 0, "mbarrier.arrive.shared.b64 %d4, [bar];") +
      kernel("dead", 0,
             "mbarrier.init.shared.b64 [bar], 1; mbarrier.inval.shared.b64 [bar];"
             "mbarrier.test_wait.parity.shared.b64 %p0, [bar], 0;") +
      kernel("none", 0, "mbarrier.init.shared.b64 [bar], 0;") +
      kernel("many", 0,
             "mbarrier.init.shared.b64 [bar], 2; mbarrier.arrive.shared.b64 %d4, [bar], 3;") +
      kernel("outside", 0, "mov.u32 %r4, 4096; mbarrier.init.shared.b64 [%r4], 1;") +
      kernel("odd", 0, "mov.u32 %r4, bar; mbarrier.init.shared.b64 [%r4+4], 1;") +
      kernel("global", 1, "mbarrier.init.b64 [%d0], 1;")));
  auto run = [&](const char *name) {
    return device.launch(program, name, {1}, {1}, Parameters().add(uint64_t{4096}));
  };
  CHECK_FAILS(run("unborn"), 719, "no initialised mbarrier", "kernel unborn");
  CHECK_FAILS(run("dead"), 719, "no initialised mbarrier");
  CHECK_FAILS(run("none"), 719, "arrivals");
  CHECK_FAILS(run("many"), 719, "more arrivals");
  CHECK_FAILS(run("outside"), 700, "mbarrier.init");
  CHECK_FAILS(run("odd"), 716, "mbarrier.init");
  CHECK_FAILS(run("global"), 700, "mbarrier.init");
}

TEST(forms_that_are_refused) {
  static const char *const kBad[] = {
      "setmaxnreg.inc.sync.aligned.u32 12;",
      "cp.async.ca.shared.global [%r4], [%d0], 12;",
      "cp.async.cg.shared.global [%r4], [%d0], 8;",
      "cp.async.ca.global.shared [%d0], [%r4], 8;",
      "mbarrier.arrive.shared::cluster.b64 %d4, [%r4];",
      "mbarrier.wait.shared.b64 [%r4];",
      "mbarrier.init.shared.b32 [%r4], 1;",
      "cp.async.bulk.global.shared::cta [%d0], [%r4], 16;",
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%d0], [%r4], 16;",
      "barrier.cluster.sync;",
      "multimem.ld_reduce.global.add.s64 %d4, [%d0];",
      "multimem.ld_reduce.global.add.min.u32 %r4, [%d0];",
      "multimem.ld_reduce.release.gpu.global.add.u32 %r4, [%d0];",
      "multimem.ld_reduce.shared.add.u32 %r4, [%r4];",
      "multimem.red.weak.global.add.u32 [%d0], %r4;",
      "multimem.red.global.inc.u32 [%d0], %r4;",
      "multimem.st.global.v2.u32 [%d0], {%r4, %r5};",
      "multimem.st.global.f16 [%d0], %h1;",
      "alloca.u64 %d4, %d0, 3;",
      "redux.sync.add.f32 %f1, %f2, -1;"};
  Device device;
  auto *memory = device.array<uint32_t>(256);
  for (const char *bad : kBad) {
    auto program = device.load(module(kernel("k", 1, bad)));
    if (device.launch(program, "k", {1}, {32}, Parameters().add(memory)).code != 218)
      check::fail(__FILE__, __LINE__, std::string("not refused: ") + bad);
  }
}
