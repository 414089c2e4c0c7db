// Clusters: blocks that run together, their barrier, their shared memory, and bulk copies in it.
#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {
struct Size {
  uint32_t x, y, z;
};
}  // namespace

TEST(special_registers_of_a_cluster) {
  Device device;
  auto program = device.load(module(kernel("k", 1, R"(
    mov.u32 %r40, %ctaid.y; mov.u32 %r41, %ctaid.z; mov.u32 %r42, %nctaid.x; mov.u32 %r43, %nctaid.y;
    mad.lo.u32 %r41, %r41, %r43, %r40; mad.lo.u32 %r41, %r41, %r42, %r1;
    mul.wide.u32 %d4, %r41, 64; add.s64 %d4, %d0, %d4;
    mov.u32 %r4, %cluster_ctaid.x; mov.u32 %r5, %cluster_ctaid.y; mov.u32 %r6, %cluster_ctaid.z;
    mov.u32 %r7, %cluster_ctarank; st.global.v4.u32 [%d4], {%r4, %r5, %r6, %r7};
    mov.u32 %r4, %cluster_nctaid.x; mov.u32 %r5, %cluster_nctaid.y; mov.u32 %r6, %cluster_nctaid.z;
    mov.u32 %r7, %cluster_nctarank; st.global.v4.u32 [%d4+16], {%r4, %r5, %r6, %r7};
    mov.u32 %r4, %clusterid.x; mov.u32 %r5, %clusterid.y; mov.u32 %r6, %clusterid.z;
    mov.pred %p1, %is_explicit_cluster; selp.u32 %r7, 1, 0, %p1;
    st.global.v4.u32 [%d4+32], {%r4, %r5, %r6, %r7};
    mov.u32 %r4, %nclusterid.x; mov.u32 %r5, %nclusterid.y; mov.u32 %r6, %nclusterid.z;
    st.global.v4.u32 [%d4+48], {%r4, %r5, %r6, %r1};)")));
  auto *out = device.array<uint32_t>(8 * 4 * 2 * 16);
  for (Size size : {Size{1, 1, 1}, Size{4, 2, 1}, Size{2, 1, 2}}) {
    device.cluster = {size.x, size.y, size.z};
    CHECK_OK(device.launch(program, "k", {8, 4, 2}, {1}, Parameters().add(out)));
    bool right = true;
    for (uint32_t z = 0; z < 2; ++z)
      for (uint32_t y = 0; y < 4; ++y)
        for (uint32_t x = 0; x < 8; ++x) {
          const uint32_t *r = out + 16 * (x + 8 * (y + 4 * z));
          uint32_t in[3] = {x % size.x, y % size.y, z % size.z};
          uint32_t blocks = size.x * size.y * size.z;
          const uint32_t want[16] = {
              in[0],      in[1],      in[2],      in[0] + size.x * (in[1] + size.y * in[2]),
              size.x,     size.y,     size.z,     blocks,
              x / size.x, y / size.y, z / size.z, blocks > 1,
              8 / size.x, 4 / size.y, 2 / size.z, x};
          for (int i = 0; i < 16; ++i) right &= r[i] == want[i];
        }
    CHECK(right);
  }
}

TEST(distributed_shared_memory) {
  // Every thread writes into the next block's memory, and adds to a counter in block 0.
  for (unsigned workers : {1u, 2u}) {
    Device device(workers);
    device.cluster = {4, 1, 1};
    auto program = device.load(module(
        ".shared .align 4 .b8 cells[256]; .shared .align 4 .u32 count;\n" + kernel("k", 1, R"(
      st.shared.u32 [count], 0; mov.u32 %r4, cells;
      barrier.cluster.arrive.release.aligned; barrier.cluster.wait.acquire.aligned;
      mov.u32 %r5, %cluster_ctarank; add.s32 %r6, %r5, 1; and.b32 %r6, %r6, 3;
      shl.b32 %r7, %r0, 2; add.s32 %r8, %r4, %r7;
      mapa.shared::cluster.u32 %r9, %r8, %r6;
      getctarank.shared::cluster.u32 %r10, %r9;
      shl.b32 %r11, %r3, 4; add.s32 %r11, %r11, %r10;
      st.shared::cluster.u32 [%r9], %r11;
      mov.u32 %r12, count; mapa.shared::cluster.u32 %r12, %r12, 0;
      red.relaxed.cluster.shared::cluster.add.u32 [%r12], 1;
      atom.shared::cluster.add.u32 %r13, [%r12], 1;
      barrier.cluster.arrive; barrier.cluster.wait;
      // the same place by a generic address
      cvt.u64.u32 %d4, %r8; cvta.shared.u64 %d4, %d4; mapa.u64 %d5, %d4, %r6; ld.u32 %r14, [%d5];
      isspacep.shared::cluster %p1, %d5; isspacep.shared::cta %p2, %d5; isspacep.global %p3, %d5;
      getctarank.u64 %r15, %d5; cvta.to.shared::cluster.u64 %d6, %d5; ld.shared::cluster.u32 %r16, [%d6];
      cvta.shared::cluster.u64 %d7, %d6; setp.ne.u64 %p4, %d7, %d5; @%p4 trap;
      @!%p1 trap; @%p2 trap; @%p3 trap; setp.ne.u32 %p5, %r15, %r6; @%p5 trap;
      setp.ne.u32 %p6, %r14, %r11; @%p6 trap; setp.ne.u32 %p7, %r16, %r11; @%p7 trap;
      ld.shared.u32 %r17, [%r8]; ld.shared::cluster.u32 %r18, [%r12];
      barrier.cluster.arrive; barrier.cluster.wait;
      mul.wide.u32 %d60, %r3, 8; add.s64 %d60, %d0, %d60; st.global.v2.u32 [%d60], {%r17, %r18};)")));
    auto *out = device.array<uint32_t>(12 * 64 * 2);
    CHECK_OK(device.launch(program, "k", {12}, {64}, Parameters().add(out)));
    bool right = true;
    for (uint32_t i = 0; i < 12 * 64; ++i) {
      uint32_t block = i / 64, from = (block & ~3u) | ((block + 3) & 3);
      right &= out[2 * i] == ((from * 64 + i % 64) << 4) + (block & 3) && out[2 * i + 1] == 512;
    }
    CHECK(right);
  }
}

TEST(cluster_barrier_of_warps_that_come_and_go) {
  // Some threads exit, the others meet 20 times, warps in different order each time.
  Device device(1);
  device.cluster = {2, 1, 1};
  auto program = device.load(module(".shared .align 4 .u32 rounds;\n" + kernel("k", 1, R"(
    mov.u32 %r5, %cluster_ctarank; setp.eq.u32 %p0, %r5, 1; setp.ge.u32 %p1, %r0, 40;
    and.pred %p2, %p0, %p1; @%p2 exit;
    mov.u32 %r4, 0; mov.u32 %r8, rounds; mapa.shared::cluster.u32 %r9, %r8, 0;
    setp.ne.u32 %p3, %r3, 0; @%p3 bra LOOP; st.shared.u32 [rounds], 0;
    LOOP: barrier.cluster.arrive.relaxed; barrier.cluster.wait;
    ld.shared::cluster.u32 %r6, [%r9]; setp.ne.u32 %p4, %r6, %r4; @%p4 trap;
    barrier.cluster.arrive; barrier.cluster.wait;
    setp.ne.u32 %p5, %r3, 71; @%p5 bra NEXT;  // thread 7 of block 1
    add.s32 %r7, %r6, 1; st.shared::cluster.u32 [%r9], %r7;
    NEXT: add.s32 %r4, %r4, 1; setp.lt.u32 %p6, %r4, 20; @%p6 bra LOOP;
    )" + store_result("%r4"))));
  auto *out = device.array<uint32_t>(128);
  CHECK_OK(device.launch(program, "k", {2}, {64}, Parameters().add(out)));
  for (uint32_t i = 0; i < 128; ++i) CHECK(out[i] == (i < 104 ? 20 : 0));
}

// Each block of a cluster has the rest of its last unit for itself, and the others reach it there.
TEST(units_of_shared_memory_in_a_cluster) {
  Device device;
  device.cluster = {4, 1, 1};
  auto program = device.load(module(kernel("k", 2, R"(
    cvt.u32.u64 %r4, %d1; mov.u32 %r5, %cluster_ctarank; add.s32 %r6, %r5, 1; and.b32 %r6, %r6, 3;
    mad.lo.u32 %r7, %r1, 5, 11; st.shared.u32 [%r4], %r7;
    barrier.cluster.arrive; barrier.cluster.wait;
    mapa.shared::cluster.u32 %r8, %r4, %r6; ld.shared::cluster.u32 %r9, [%r8];
    cvt.u64.u32 %d4, %r4; cvta.shared.u64 %d4, %d4; mapa.u64 %d5, %d4, %r6; ld.u32 %r10, [%d5];
    barrier.cluster.arrive; barrier.cluster.wait;
    setp.ne.u32 %p0, %r9, %r10; @%p0 trap;)" + store_result("%r9")) +
                                    kernel("beyond", 2, R"(
    cvt.u32.u64 %r4, %d1; mapa.shared::cluster.u32 %r8, %r4, 2;
    ld.shared::cluster.u32 %r9, [%r8];)")));
  auto *out = device.array<uint32_t>(8);
  for (const bool exact : {true, false}) {
    device.exact_shared = exact;
    auto run = [&](const char *name, uint64_t at) {
      return device.launch(program, name, {8}, {1}, Parameters().add(out).add(at), 8);
    };
    const uint64_t end = exact ? 8 : 128;
    CHECK_OK(run("k", end - 4));
    for (uint32_t i = 0; i < 8; ++i) CHECK(out[i] == 5 * (i / 4 * 4 + (i + 1) % 4) + 11);
    CHECK_FAILS(run("k", end), 700, "st.shared");
    CHECK_OK(run("beyond", end - 4));
    CHECK_FAILS(run("beyond", end), 700, "ld.shared::cluster");
  }
}

TEST(clusters_that_cannot_be) {
  Device device;
  auto program = device.load(module(".shared .align 8 .b64 bar;\n" + kernel("k", 0, "") +
                                    kernel("rank", 0,
                                           "mov.u64 %d4, bar; cvta.shared.u64 %d4, %d4;"
                                           "mapa.u64 %d5, %d4, 2;") +
                                    kernel("beyond", 0,
                                           "mov.u32 %r4, bar; or.b32 %r4, %r4, 0x3000000;"
                                           "ld.shared::cluster.u32 %r5, [%r4];") +
                                    kernel("stuck", 0, R"(
      setp.eq.u32 %p0, %r1, 0; @%p0 bra END; bar.sync 1, 64;
      END: barrier.cluster.arrive; barrier.cluster.wait;)")));
  device.cluster = {17, 1, 1};
  CHECK_FAILS(device.launch(program, "k", {17}, {1}, Parameters()), 912, "cluster");
  device.cluster = {2, 1, 1};
  CHECK_FAILS(device.launch(program, "k", {3}, {1}, Parameters()), 912, "multiple");
  CHECK_FAILS(device.launch(program, "rank", {2}, {1}, Parameters()), 719, "no block", "mapa");
  CHECK_FAILS(device.launch(program, "beyond", {2}, {1}, Parameters()), 700, "ld.shared::cluster");
  CHECK_FAILS(device.launch(program, "stuck", {2}, {32}, Parameters()), 702, "cluster", "wait");
}

TEST(bulk_copies) {
  Device device;
  device.cluster = {2, 1, 1};
  auto program = device.load(module(R"(
    .shared .align 16 .b8 buffer[256]; .shared .align 16 .b8 second[256]; .shared .align 8 .b64 bar;
    )" + kernel("k", 2, R"(
    mov.u32 %r20, bar; mov.u32 %r21, buffer; mov.u32 %r22, second; mov.u32 %r5, %cluster_ctarank;
    setp.ne.u32 %p0, %r0, 0; @%p0 bra READY;
    mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;
    mbarrier.arrive.expect_tx.shared.b64 _, [bar], 512; fence.proxy.async.shared::cta;
    READY: barrier.cluster.arrive; barrier.cluster.wait;
    @%p0 bra WAIT;
    // block 0 fetches for both; each hands its buffer to the other
    setp.ne.u32 %p1, %r5, 0; @%p1 bra W0; mov.u16 %h1, 3;
    cp.async.bulk.prefetch.L2.global [%d1], 256;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster
      [buffer], [%d1], 256, [bar], %h1;
    W0:
    WAIT: barrier.cluster.arrive; barrier.cluster.wait; @%p0 bra DONE;
    xor.b32 %r6, %r5, 1; mapa.shared::cluster.u32 %r7, %r22, %r6; mapa.shared::cluster.u32 %r8, %r20, %r6;
    mov.u32 %r9, 256;
    cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%r7], [%r21], %r9, [%r8];
    DONE:
    W1: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p2, [bar], 0; @!%p2 bra W1;
    mul.wide.u32 %d4, %r1, 256; add.s64 %d4, %d0, %d4;
    @%p0 bra END;
    cp.async.bulk.global.shared::cta.bulk_group [%d4], [second], 256;
    cp.async.bulk.commit_group; cp.async.bulk.wait_group.read 0; cp.async.bulk.wait_group 0;
    add.s64 %d5, %d0, 512; mov.u16 %h2, 5;
    cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%d5], [%r22], 256;
    cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%d5+256], [%r22], 256, %h2;
    END: barrier.cluster.arrive; barrier.cluster.wait;)")));
  auto *out = device.array<uint32_t>(1024);
  auto *in = device.array<uint32_t>(64);
  for (uint32_t i = 0; i < 64; ++i) in[i] = i * 1000003 + 0x11;
  CHECK_OK(device.launch(program, "k", {2}, {32}, Parameters().add(out).add(in)));
  bool right = true;
  for (uint32_t i = 0; i < 64; ++i) {
    right &= out[i] == in[i] && out[64 + i] == in[i] && out[128 + i] == 2 * in[i];
    right &= out[192 + i] == (i % 4 == 0 ? in[i] & 0xff00ffu : 0);
  }
  CHECK(right);
}

TEST(bulk_copies_are_checked) {
  Device device;
  auto program = device.load(
      module(".shared .align 16 .b8 buffer[64]; .shared .align 8 .b64 bar;\n" + kernel("k", 2, R"(
    mbarrier.init.shared.b64 [bar], 1; mov.u32 %r4, buffer; cvt.u32.u64 %r5, %d1;
    cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r4], [%d0], %r5, [bar];)") +
             kernel("out", 2, R"(
    cvt.u32.u64 %r5, %d1; cp.async.bulk.global.shared::cta.bulk_group [%d0], [buffer], %r5;)")));
  auto *memory = device.array<uint8_t>(64);
  auto good = reinterpret_cast<uint64_t>(memory);
  auto run = [&](const char *name, uint64_t address, uint64_t size) {
    return device.launch(program, name, {1}, {1}, Parameters().add(address).add(size));
  };
  CHECK_OK(run("k", good, 64));
  CHECK_OK(run("k", good, 0));
  CHECK_FAILS(run("k", good, 0x7ffffff0), 700, "cp.async.bulk");
  CHECK_FAILS(run("k", good, 8), 716, "multiple of 16");
  CHECK_FAILS(run("k", good + 8, 16), 716, "misaligned");
  CHECK_FAILS(run("k", 4096, 16), 700, "global");
  CHECK_OK(run("out", good, 64));
  CHECK_FAILS(run("out", good, 4096), 700, "shared");
  CHECK_FAILS(run("out", 4096, 16), 700, "global");
}

TEST(stores_that_report_to_an_mbarrier) {
  Device device;
  device.cluster = {2, 1, 1};
  auto program = device.load(
      module(".shared .align 16 .b8 buffer[32]; .shared .align 8 .b64 bar;\n" + kernel("k", 1, R"(
    mov.u32 %r20, bar; mov.u32 %r21, buffer; mov.u32 %r5, %cluster_ctarank;
    mov.u64 %d10, 0; st.shared.v2.u64 [buffer], {%d10, %d10}; st.shared.v2.u64 [buffer+16], {%d10, %d10};
    mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 36;
    barrier.cluster.arrive; barrier.cluster.wait;
    xor.b32 %r6, %r5, 1; mapa.shared::cluster.u32 %r7, %r21, %r6; mapa.shared::cluster.u32 %r8, %r20, %r6;
    add.s32 %r9, %r5, 100; mov.u32 %r10, 7;
    st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r7], {%r9, %r10, %r10, %r9}, [%r8];
    mov.u64 %d5, 0x1234567890; st.async.shared::cluster.mbarrier::complete_tx::bytes.b64 [%r7+16], %d5, [%r8];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%r7+4], %r10, [%r8];
    red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u64 [%r7+24], %d5, [%r8];
    W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;
    mul.wide.u32 %d4, %r1, 32; add.s64 %d4, %d0, %d4;
    ld.shared.v4.u32 {%r11, %r12, %r13, %r14}, [buffer]; st.global.v4.u32 [%d4], {%r11, %r12, %r13, %r14};
    ld.shared.v2.u64 {%d6, %d7}, [buffer+16]; st.global.v2.u64 [%d4+16], {%d6, %d7};
    barrier.cluster.arrive; barrier.cluster.wait;)")));
  struct Out {
    uint32_t a[4];
    uint64_t b[2];
  };
  auto *out = device.array<Out>(2);
  CHECK_OK(device.launch(program, "k", {2}, {1}, Parameters().add(out)));
  for (uint32_t i = 0; i < 2; ++i) {
    uint32_t other = 100 + (i ^ 1);
    CHECK(out[i].a[0] == other && out[i].a[1] == 14 && out[i].a[2] == 7 && out[i].a[3] == other);
    CHECK(out[i].b[0] == 0x1234567890 && out[i].b[1] == 0x1234567890);
  }
}
