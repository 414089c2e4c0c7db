// Fences in every legal form: a message is passed from block to block, its sign after its contents.
// That the order holds is seen; that it would not without the fence, a CPU whose stores stay in
// order does not show.
#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

constexpr const char *kOrdered = "messages arrive whole";

std::vector<std::string> all_forms() {
  std::vector<std::string> all = {
      "membar.cta",
      "membar.gl",
      "membar.sys",
      "membar.proxy.alias",
      "fence.acquire.sync_restrict::shared::cluster.cluster",
      "fence.release.sync_restrict::shared::cta.cluster",
      "fence.mbarrier_init.release.cluster",
      "fence.proxy.alias",
      "fence.proxy.async",
      "fence.proxy.async.global",
      "fence.proxy.async.shared::cta",
      "fence.proxy.async.shared::cluster",
      "fence.proxy.async::generic.release.sync_restrict::shared::cta.cluster",
      "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster.cluster",
      "fence.proxy.async::generic.release.sync_restrict::shared::cluster::read.cta",
      "fence.proxy.async::generic.release.sync_restrict::shared::cluster::read.cluster",
  };
  for (const char *scope : {"cta", "cluster", "gpu", "sys"}) {
    for (const char *order : {"", ".sc", ".acq_rel", ".acquire", ".release"})
      all.push_back(std::string("fence") + order + "." + scope);
    for (const char *order : {"release", "acquire"})
      all.push_back(std::string("fence.proxy.tensormap::generic.") + order + "." + scope);
  }
  return all;
}

}  // namespace

// A ring of blocks: each waits for the one before, adds to four numbers, and hands them on.
TEST(fences) {
  constexpr unsigned kBlocks = 16;
  Device device(2);
  auto *cells = device.array<uint32_t>(kBlocks * 5);
  for (const std::string &form : all_forms()) {
    const bool names = form.find("generic.acquire.") != std::string::npos &&
                       form.find("tensormap") != std::string::npos;
    const std::string fence = form + (names ? " [%d0], 128;\n" : ";\n");
    auto program = device.load(module(kernel("k", 1, R"(
      mul.lo.u32 %r4, %r1, 20; cvt.u64.u32 %d4, %r4; add.s64 %d4, %d0, %d4;
      mov.u32 %r5, 1; mov.u32 %r6, 2; mov.u32 %r7, 3; mov.u32 %r8, 4;
      setp.eq.u32 %p0, %r1, 0; @%p0 bra FIRST;
      WAIT: ld.relaxed.gpu.global.u32 %r9, [%d4+-4]; setp.eq.u32 %p1, %r9, 0; @%p1 bra WAIT;
      )" + fence + R"(
      ld.global.u32 %r5, [%d4+-20]; ld.global.u32 %r6, [%d4+-16];
      ld.global.u32 %r7, [%d4+-12]; ld.global.u32 %r8, [%d4+-8];
      FIRST: add.u32 %r5, %r5, 1; add.u32 %r6, %r6, 2; add.u32 %r7, %r7, 3; add.u32 %r8, %r8, 4;
      st.global.u32 [%d4], %r5; st.global.u32 [%d4+4], %r6;
      st.global.u32 [%d4+8], %r7; st.global.u32 [%d4+12], %r8;
      )" + fence + "mov.u32 %r9, 1; st.relaxed.gpu.global.u32 [%d4+16], %r9;")));
    CHECK(program);
    for (unsigned i = 0; i < kBlocks * 5; ++i) cells[i] = 0;
    rig::Status status = device.launch(program, "k", {kBlocks}, {1}, Parameters().add(cells));
    if (!status.ok()) check::fail(__FILE__, __LINE__, form + ": " + status.message);
    bool right = true;
    for (unsigned block = 0; block < kBlocks; ++block)
      for (unsigned i = 0; i < 4; ++i) right &= cells[block * 5 + i] == (i + 1) * (block + 2);
    if (!right) check::fail(__FILE__, __LINE__, form);
    proven::add(form, kBlocks * 4, false, kOrdered);
  }
}

TEST(fences_that_are_refused) {
  Device device;
  for (const char *bad :
       {"fence",
        "membar",
        "fence.cta.gpu",
        "fence.mbarrier_init.cluster",
        "fence.gl",
        "membar.gpu",
        "membar.sc.cta",
        "membar.proxy.async",
        "fence.sc.acquire.cta",
        "fence.proxy",
        "fence.proxy.async.cta",
        "fence.proxy.alias.gpu",
        "fence.proxy.async.global.shared::cta",
        "fence.proxy.tensormap::generic.gpu",
        "fence.mbarrier_init.release.gpu",
        "fence.acquire.sync_restrict::shared::cta.cluster",
        "fence.proxy.async::generic.acquire.sync_restrict::shared::cluster::read.cluster",
        "fence.proxy.async::generic.release.sync_restrict::shared::cta.cta",
        "fence.release.sync_restrict::shared::cta.gpu",
        "fence.proxy.async::generic.release.cluster"}) {
    auto program = device.load(module(kernel("k", 0, std::string(bad) + ";")));
    if (program->find_kernel("k")->translate().code != 218)
      check::fail(__FILE__, __LINE__, std::string("not refused: ") + bad);
  }
}
