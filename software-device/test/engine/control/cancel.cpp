// clusterlaunchcontrol: a block asks to take over one that has not started. It is told of the
// answer by an mbarrier, and the answer is always no.
#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

TEST(blocks_are_never_taken_over) {
  const std::string query = "clusterlaunchcontrol.query_cancel.",
                    try_cancel = "clusterlaunchcontrol.try_cancel.async";
  Device device;
  device.cluster = {2, 1, 1};
  auto *out = device.array<uint32_t>(2);
  // Whether each block asks for itself, or one for all of the cluster.
  for (bool all : {false, true})
    for (const std::string space : {"", ".shared::cta"}) {
      const std::string form = try_cancel + space + ".mbarrier::complete_tx::bytes" +
                               (all ? ".multicast::cluster::all" : "") + ".b128";
      auto program = device.load(
          module(".shared .align 16 .b8 answer[16]; .shared .align 8 .b64 bar;\n" +
                 kernel("k", 1,
                        R"(
    .reg .b128 %q<2>;
    mov.u64 %d10, -1; st.shared.v2.u64 [answer], {%d10, %d10};
    mov.u64 %d11, answer; cvta.shared.u64 %d11, %d11; mov.u64 %d12, bar; cvta.shared.u64 %d12, %d12;
    mbarrier.init.shared.b64 [bar], 1; mbarrier.arrive.expect_tx.shared.b64 _, [bar], 16;
    barrier.cluster.arrive; barrier.cluster.wait;
    mov.u32 %r5, %cluster_ctarank; setp.ne.u32 %p0, %r5, 0;
    )" + std::string(all ? "@!%p0 " : "") +
                            form + (space.empty() ? " [%d11], [%d12];" : " [answer], [bar];") + R"(
    W: mbarrier.try_wait.parity.shared.b64 %p2, [bar], 0; @!%p2 bra W;
    ld.shared.v2.u64 {%d5, %d6}, [answer]; mov.b128 %q1, {%d5, %d6};
    )" + query + "is_canceled.pred.b128 %p3, %q1; @%p3 trap; @%p3 " +
                            query + "get_first_ctaid.v4.b32.b128 {%r6, %r7, %r8, _}, %q1; @%p3 " +
                            query + "get_first_ctaid::x.b32.b128 %r6, %q1; @%p3 " + query +
                            "get_first_ctaid::y.b32.b128 %r7, %q1; @%p3 " + query +
                            "get_first_ctaid::z.b32.b128 %r8, %q1;" + R"(
    or.b64 %d5, %d5, %d6; cvt.u32.u64 %r4, %d5; add.s32 %r4, %r4, 5;
    barrier.cluster.arrive; barrier.cluster.wait;)" +
                            store_result("%r4"))));
      CHECK_OK(device.launch(program, "k", {2}, {1}, Parameters().add(out)));
      CHECK(out[0] == 5 && out[1] == 5);
      proven::add(form, 2);
      proven::add(query + "is_canceled.pred.b128", 2);
      // What it would say of a yes, nobody sees.
      for (const char *part : {".v4", "::x", "::y", "::z"})
        proven::add(query + "get_first_ctaid" + part + ".b32.b128", 2, false, proven::kNoEffect);
    }
}
