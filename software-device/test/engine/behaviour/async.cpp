// Asynchronous copies, and barriers in shared memory.
#include <numeric>

#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

// Copies `size` bytes per thread with `extra` operands, then writes them out byte by byte.
std::string copy_kernel(const std::string &name, const std::string &op, unsigned size,
                        const std::string &extra) {
  std::string n = std::to_string(size);
  return ".shared .align 16 .b8 buffer_" + name + "[" + std::to_string(64 * size) + "];\n" +
         kernel(name, 2,
                "mov.u32 %r4, buffer_" + name + "; mul.lo.u32 %r5, %r0, " + n +
                    "; add.s32 %r6, %r4, %r5; cvt.u64.u32 %d4, %r5;"
                    "add.s64 %d5, %d1, %d4; mov.u32 %r9, 0;\n"
                    // what is there before
                    "FILL: add.s32 %r10, %r6, %r9; mov.u16 %h1, 0xee;"
                    "st.shared.u8 [%r10], %h1; add.s32 %r9, %r9, 1;"
                    "setp.lt.u32 %p0, %r9, " +
                    n +
                    "; @%p0 bra FILL;\n"
                    "rem.u32 %r7, %r0, 20; and.b32 %r8, %r0, 1; setp.eq.u32 %p1, %r8, 1;"
                    "createpolicy.fractional.L2::evict_first.b64 %d6, 0f3F000000;"
                    "setp.ge.u32 %p2, %r0, 60; @%p2 bra SKIP;\n" +
                    op + " [%r6], [%d5+16], " + n + extra +
                    "; cp.async.commit_group; cp.async.wait_group 0;\n"
                    "SKIP: cp.async.wait_all; mov.u32 %r9, 0; add.s64 %d7, %d0, %d4;\n"
                    "OUT: add.s32 %r10, %r6, %r9; ld.shared.u8 %h2, [%r10];"
                    "cvt.u64.u32 %d8, %r9; add.s64 %d9, %d7, %d8; st.global.u8 [%d9], %h2;"
                    "add.s32 %r9, %r9, 1; setp.lt.u32 %p3, %r9, " +
                    n + "; @%p3 bra OUT;");
}

}  // namespace

TEST(asynchronous_copies) {
  struct Form {
    const char *op;
    unsigned size;
    const char *extra;
    int limit;  // 0: all, 1: %r7 bytes, 2: nothing for odd threads, 3: nothing for even ones, 4: 3
  };
  const Form forms[] = {
      {"cp.async.ca.shared.global", 4, "", 0},
      {"cp.async.ca.shared::cta.global", 8, "", 0},
      {"cp.async.ca.shared.global.L2::128B", 16, "", 0},
      {"cp.async.cg.shared.global", 16, "", 0},
      {"cp.async.cg.shared.global.L2::256B", 16, ", %r7", 1},
      {"cp.async.ca.shared.global", 4, ", %r7", 1},
      {"cp.async.ca.shared.global", 8, ", 3", 4},
      {"cp.async.ca.shared.global", 8, ", %p1", 2},
      {"cp.async.cg.shared.global", 16, ", !%p1", 3},
      {"cp.async.cg.shared.global.L2::cache_hint", 16, ", %d6", 0},
      {"cp.async.cg.shared.global.L2::cache_hint.L2::64B", 16, ", %r7, %d6", 1},
      {"cp.async.ca.shared.global.L2::cache_hint", 4, ", %p1, %d6", 2},
  };
  std::string text;
  int number = 0;
  for (const Form &form : forms)
    text += copy_kernel("k" + std::to_string(number++), form.op, form.size, form.extra);
  Device device;
  auto program = device.load(module(text));
  auto *out = device.array<uint8_t>(1024), *in = device.array<uint8_t>(1040);
  for (unsigned i = 0; i < 1040; ++i) in[i] = static_cast<uint8_t>(i * 7 + 1);
  number = 0;
  for (const Form &form : forms) {
    std::string name = "k" + std::to_string(number++);
    CHECK_OK(device.launch(program, name.c_str(), {1}, {64}, Parameters().add(out).add(in)));
    bool right = true;
    for (unsigned thread = 0; thread < 64; ++thread) {
      unsigned bytes = form.limit == 1   ? std::min(thread % 20, form.size)
                       : form.limit == 2 ? (thread & 1 ? 0 : form.size)
                       : form.limit == 3 ? (thread & 1 ? form.size : 0)
                       : form.limit == 4 ? 3
                                         : form.size;
      for (unsigned b = 0; b < form.size; ++b) {
        unsigned at = thread * form.size + b;
        uint8_t want = b < bytes ? in[at + 16] : 0;
        right &= out[at] == (thread < 60 ? want : 0xee);
      }
    }
    if (!right) check::fail(__FILE__, __LINE__, std::string(form.op) + form.extra);
  }
}

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

TEST(fences_and_hints_in_every_form) {
  static const char *const kGood[] = {
      "prefetch.global.L1 [%d0];",
      "prefetch.global.L2 [%d0+128];",
      "prefetch.L2 [%d0];",
      "prefetch.global.L2::evict_last [%d0];",
      "prefetch.global.L2::evict_normal [%d0];",
      "prefetchu.L1 [%d0];",
      "applypriority.global.L2::evict_normal [%d0], 128;",
      "discard.global.L2 [%d0], 128;",
      "griddepcontrol.launch_dependents;",
      "griddepcontrol.wait;",
      "pmevent 3;",
      "pmevent.mask 5;",
      "nanosleep.u32 20;",
      "nanosleep.u32 %r0;",
      "createpolicy.fractional.L2::evict_last.b64 %d4;",
      "createpolicy.fractional.L2::evict_last.L2::evict_unchanged.b64 %d4, 0.5;",
      "createpolicy.range.L2::evict_last.L2::evict_first.b64 %d4, [%d0], 64, 128;",
      "createpolicy.range.global.L2::evict_normal.b64 %d4, [%d0], %r0, %r2;",
      "createpolicy.cvt.L2.b64 %d4, 0x10f0000000000000;",
      ("createpolicy.fractional.L2::evict_first.b64 %d4, 0.25;"
       "ld.global.L2::cache_hint.u32 %r4, [%d0], %d4;"
       "ld.global.nc.L1::evict_last.L2::cache_hint.L2::256B.u32 %r4, [%d0], %d4;"
       "st.global.L2::cache_hint.u32 [%d0], %r4, %d4;"
       "atom.global.add.L2::cache_hint.u32 %r5, [%d0], 0, %d4;"
       "red.global.add.L2::cache_hint.u32 [%d0], 0, %d4;"),
      "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.acquire.aligned;",
      "bar.warp.sync 0xffffffff;",
      "barrier.cta.sync.aligned 0;",
      "bar.cta.red.popc.u32 %r4, 2, 32, %p0;",
      ("cp.async.wait_group 3; cp.async.commit_group; cp.async.bulk.commit_group;"
       "cp.async.bulk.wait_group.read 1;"),
  };
  static const char *const kBad[] = {
      "prefetch.L3 [%d0];",
      "prefetch.global.L1 %d0;",
      "griddepcontrol.stop;",
      "createpolicy.L2::evict_last.b64 %d4;",
      "createpolicy.fractional.b64 %d4;",
      "createpolicy.fractional.L2::evict_last.b32 %r4;",
      "setmaxnreg.inc.sync.aligned.u32 240;",
      "cp.async.ca.shared.global [%r4], [%d0], 12;",
      "cp.async.cg.shared.global [%r4], [%d0], 8;",
      "cp.async.ca.global.shared [%d0], [%r4], 8;",
      "mbarrier.arrive.shared::cluster.b64 %d4, [%r4];",
      "mbarrier.wait.shared.b64 [%r4];",
      "mbarrier.init.shared.b32 [%r4], 1;",
      "cp.async.bulk.global.shared::cta [%d0], [%r4], 16;",
      "cp.reduce.async.bulk.global.shared::cta.bulk_group.min.f32 [%d0], [%r4], 16;",
      "barrier.cluster.sync;",
      "multimem.ld_reduce.global.add.u32 %r4, [%d0];",
      "alloca.u64 %d4, %d0, 3;",
      "redux.sync.add.f32 %f1, %f2, -1;"};
  Device device;
  auto *memory = device.array<uint32_t>(256);
  for (const char *good : kGood) {
    auto program = device.load(module(kernel("k", 1, good)));
    softdev::Status status = device.launch(program, "k", {1}, {32}, Parameters().add(memory));
    if (!status.ok()) check::fail(__FILE__, __LINE__, std::string(good) + ": " + status.message);
  }
  for (const char *bad : kBad) {
    auto program = device.load(module(kernel("k", 1, bad)));
    if (device.launch(program, "k", {1}, {32}, Parameters().add(memory)).code != 218)
      check::fail(__FILE__, __LINE__, std::string("not refused: ") + bad);
  }
}
