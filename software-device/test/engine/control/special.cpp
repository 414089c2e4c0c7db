// Known registers: what each thread of a grid finds in them.
#include <functional>

#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

// A grid of 4 x 6 x 2 blocks, in clusters of 2 x 3 x 1, of 5 x 3 x 3 threads: two warps, of which
// the second is not full.
constexpr uint32_t kGrid[] = {4, 6, 2}, kCluster[] = {2, 3, 1}, kBlock[] = {5, 3, 3};
constexpr uint32_t kThreads = 45, kBlocks = 48, kDynamic = 200;

struct At {
  uint32_t thread[3], block[3], linear;
};
struct Known {
  const char *name;
  std::function<uint64_t(const At &)> want;
};

std::vector<Known> registers() {
  std::vector<Known> all;
  static std::vector<std::string> names;
  names.reserve(64);
  auto add = [&](const std::string &name, std::function<uint64_t(const At &)> want) {
    names.push_back(name);
    all.push_back({names.back().c_str(), std::move(want)});
  };
  for (int d = 0; d < 4; ++d) {
    const std::string axis = std::string(".") + "xyzw"[d];
    auto of = [d](auto f) {
      return [d, f](const At &at) -> uint64_t { return d < 3 ? f(at, d) : 0; };
    };
    add("%tid" + axis, of([](const At &at, int k) { return at.thread[k]; }));
    add("%ctaid" + axis, of([](const At &at, int k) { return at.block[k]; }));
    add("%clusterid" + axis, of([](const At &at, int k) { return at.block[k] / kCluster[k]; }));
    add("%cluster_ctaid" + axis, of([](const At &at, int k) { return at.block[k] % kCluster[k]; }));
    add("%ntid" + axis, of([](const At &, int k) { return kBlock[k]; }));
    add("%nctaid" + axis, of([](const At &, int k) { return kGrid[k]; }));
    add("%nclusterid" + axis, of([](const At &, int k) { return kGrid[k] / kCluster[k]; }));
    add("%cluster_nctaid" + axis, of([](const At &, int k) { return kCluster[k]; }));
  }
  auto lane = [](const At &at) { return at.linear % 32; };
  add("%laneid", lane);
  add("%warpid", [](const At &at) { return at.linear / 32; });
  add("%nwarpid", [](const At &) { return 0; });  // at least as many as there are
  add("%cluster_ctarank", [](const At &at) { return at.block[0] % 2 + 2 * (at.block[1] % 3); });
  add("%cluster_nctarank", [](const At &) { return 6; });
  add("%lanemask_eq", [=](const At &at) { return 1u << lane(at); });
  add("%lanemask_lt", [=](const At &at) { return (1u << lane(at)) - 1; });
  add("%lanemask_le", [=](const At &at) { return (2ull << lane(at)) - 1; });
  add("%lanemask_gt", [=](const At &at) { return ~((2ull << lane(at)) - 1) & 0xffffffff; });
  add("%lanemask_ge", [=](const At &at) { return ~((1ull << lane(at)) - 1) & 0xffffffff; });
  add("%dynamic_smem_size", [](const At &) { return kDynamic; });
  for (const char *zero : {"%pm0", "%pm7", "%envreg0", "%envreg31"})
    add(zero, [](const At &) { return 0; });
  return all;
}

struct Bench {
  Device device{2};
  uint64_t *out = device.array<uint64_t>(kBlocks * kThreads);

  // What each thread finds, through %d20.
  bool run(const std::string &form, const std::string &text) {
    auto program = device.load(module(kernel("k", 1, R"(
      mov.u32 %r40, %ctaid.z; mov.u32 %r41, %nctaid.y; mov.u32 %r42, %ctaid.y;
      mad.lo.u32 %r40, %r40, %r41, %r42; mov.u32 %r41, %nctaid.x; mad.lo.u32 %r40, %r40, %r41, %r1;
      mov.u32 %r43, %tid.z; mov.u32 %r44, %ntid.y; mov.u32 %r45, %tid.y;
      mad.lo.u32 %r43, %r43, %r44, %r45; mad.lo.u32 %r43, %r43, %r2, %r0;
      mad.lo.u32 %r40, %r40, 45, %r43; mul.wide.u32 %d40, %r40, 8; add.s64 %d40, %d0, %d40;
      mov.u32 %r20, 0;
      )" + text + " st.global.u64 [%d40], %d20;")));
    CHECK(program);
    if (!program) return false;
    device.cluster = {kCluster[0], kCluster[1], kCluster[2]};
    rig::Status status =
        device.launch(program, "k", {kGrid[0], kGrid[1], kGrid[2]},
                      {kBlock[0], kBlock[1], kBlock[2]}, Parameters().add(out), kDynamic);
    if (!status.ok()) check::fail(__FILE__, __LINE__, form + ": " + status.message);
    return status.ok();
  }
  template <class F>
  void each(F f) {
    for (uint32_t i = 0; i < kBlocks * kThreads; ++i) {
      const uint32_t b = i / kThreads, t = i % kThreads;
      f(At{{t % 5, t / 5 % 3, t / 15}, {b % 4, b / 4 % 6, b / 24}, t}, out[i]);
    }
  }
};

}  // namespace

TEST(places_in_the_grid) {
  Bench bench;
  for (const Known &one : registers()) {
    const std::string form = std::string("mov ") + one.name;
    if (!bench.run(form, std::string("mov.u32 %r20, ") + one.name + "; cvt.u64.u32 %d20, %r20;"))
      continue;
    bool right = true;
    const bool least = std::strcmp(one.name, "%nwarpid") == 0;
    bench.each(
        [&](const At &at, uint64_t got) { right &= least ? got >= 2 : got == one.want(at); });
    if (!right) check::fail(__FILE__, __LINE__, form);
    proven::add(form, kBlocks * kThreads);
  }
}

// Read as 16 bits, as old programs do, and as vectors.
TEST(places_in_other_widths) {
  Bench bench;
  for (const char *name : {"%tid", "%ntid", "%ctaid", "%nctaid"}) {
    const std::string text =
        std::string("mov.u16 %h1, ") + name +
        ".y; cvt.u32.u16 %r21, %h1; mov.v4.u32 {%r22, %r23, %r24, %r25}, " + name +
        "; mov.u32 %r26, " + name +
        ".z; setp.ne.u32 %p0, %r21, %r23; @%p0 trap; setp.ne.u32 %p1, %r24, "
        "%r26; @%p1 trap; setp.ne.u32 %p2, %r25, 0; @%p2 trap; mov.u64 %d20, 1;";
    bench.run(name, text);
    proven::add(std::string("mov.u16 ") + name, kBlocks * kThreads);
    proven::add(std::string("mov.v4.u32 ") + name, kBlocks * kThreads);
  }
}

// Where a block runs is anywhere, but all of its threads are there.
TEST(processors_and_grids) {
  Bench bench;
  for (const std::string name : {"%smid", "%nsmid", "%gridid"}) {
    const std::string wide = name == "%gridid"
                                 ? "mov.u64 %d20, %gridid; "
                                 : "mov.u32 %r20, " + name + "; cvt.u64.u32 %d20, %r20;";
    if (!bench.run(name, wide)) continue;
    uint64_t first = 0;
    bool right = true;
    bench.each([&](const At &at, uint64_t got) {
      if (at.linear == 0) first = got;
      right &= got == first && (name != "%nsmid" || got > 0);
    });
    if (!right) check::fail(__FILE__, __LINE__, name);
    proven::add("mov " + name, kBlocks * kThreads);
  }
  bench.run("%is_explicit_cluster",
            "mov.pred %p0, %is_explicit_cluster; selp.u64 %d20, 1, 0, %p0;");
  bench.each([&](const At &, uint64_t got) { CHECK(got == 1); });
  proven::add("mov.pred %is_explicit_cluster", kBlocks * kThreads);
}

// Sizes of shared memory: what is asked for and what the kernel itself has, and what is reserved.
TEST(sizes_of_shared_memory) {
  Bench bench;
  const std::string own =
      ".shared .align 16 .b8 own[320]; mov.u32 %r21, own; st.shared.u32 [own], %r21;";
  auto read = [&](const std::string &name) {
    CHECK(bench.run(name, own + "mov.u32 %r20, " + name + "; cvt.u64.u32 %d20, %r20;"));
    proven::add("mov " + name, kBlocks * kThreads);
    bench.each([&](const At &, uint64_t got) { CHECK(got == bench.out[0]); });
    return bench.out[0];
  };
  constexpr uint64_t kReserved = 1024;  // of the system
  for (const bool exact : {true, false}) {
    bench.device.exact_shared = exact;
    for (const uint32_t unit : {128u, 256u}) {
      bench.device.shared_unit = unit;
      const uint64_t total = unit == 128 ? 640 : 768;  // of 320 + kDynamic bytes
      CHECK(read("%total_smem_size") == total);
      CHECK(read("%aggr_smem_size") == total + kReserved);
      const uint64_t begin = read("%reserved_smem_offset_begin"),
                     end = read("%reserved_smem_offset_end");
      CHECK(begin == (exact ? 528 : total));
      CHECK(end == begin + kReserved && read("%reserved_smem_offset_cap") >= end);
      for (const char *part : {"%reserved_smem_offset_0", "%reserved_smem_offset_1"}) {
        const uint64_t at = read(part);
        CHECK(at >= begin && at <= end);
      }
    }
  }
}

// Clocks go on, and never back.
TEST(clocks) {
  struct Clock {
    const char *name, *read;
    bool steps;  // in the time of some work
  };
  static constexpr Clock kClocks[] = {
      {"%clock", "mov.u32 %rN, %clock; cvt.u64.u32 %dN, %rN;", true},
      {"%clock_hi", "mov.u32 %rN, %clock_hi; cvt.u64.u32 %dN, %rN;", false},
      {"%clock64", "mov.u64 %dN, %clock64;", true},
      {"%globaltimer", "mov.u64 %dN, %globaltimer;", true},
      {"%globaltimer_lo", "mov.u32 %rN, %globaltimer_lo; cvt.u64.u32 %dN, %rN;", true},
      {"%globaltimer_hi", "mov.u32 %rN, %globaltimer_hi; cvt.u64.u32 %dN, %rN;", false},
  };
  Bench bench;
  for (const Clock &clock : kClocks) {
    auto read = [&](const char *number) {
      std::string text = clock.read;
      for (size_t at; (at = text.find('N')) != std::string::npos;) text.replace(at, 1, number);
      return text;
    };
    CHECK(bench.run(clock.name, read("22") + R"(
        mov.u32 %r30, 0; WORK: add.u32 %r30, %r30, 1; setp.lt.u32 %p0, %r30, 300; @%p0 bra WORK;)" +
                                    read("23") + "sub.s64 %d20, %d23, %d22;"));
    bool right = true;
    bench.each([&](const At &, uint64_t got) {
      // one of 32 bits may have begun again
      const auto passed = static_cast<int32_t>(got);
      right &= clock.steps ? passed > 0 : passed >= 0;
    });
    if (!right) check::fail(__FILE__, __LINE__, clock.name);
    proven::add(std::string("mov ") + clock.name, kBlocks * kThreads);
  }
}

// Of profilers, graphs and drivers: there are none of these to tell of.
TEST(registers_of_tools) {
  Bench bench;
  for (const char *name : {"%pm0_64", "%pm7_64", "%current_graph_exec"}) {
    CHECK(bench.run(name, std::string("mov.u64 %d20, ") + name + ";"));
    bench.each([&](const At &, uint64_t got) { CHECK(got == 0); });
    proven::add(std::string("mov ") + name, kBlocks * kThreads);
  }
}
