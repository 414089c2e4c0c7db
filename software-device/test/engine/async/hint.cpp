// What tells a GPU of caches, dependent launches and profilers. Nothing of that can be seen by a
// program: each is run beside loads and stores of the memory that it names, which stays as it was.
#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

std::vector<std::string> hints() {
  std::vector<std::string> all = {
      "prefetchu.L1 [%d10]",
      "prefetch.tensormap [%d10]",
      "prefetch.const.tensormap [%d11]",
      "prefetch.param.tensormap [p0]",
      "prefetch.L1 [%d10]",
      "prefetch.L2 [%d10]",
      "prefetch.global.L1 [%d10]",
      "prefetch.global.L2 [%d10+128]",
      "prefetch.local.L1 [%d12]",
      "prefetch.local.L2 [%d12]",
      "prefetch.L2::evict_last [%d10]",
      "prefetch.L2::evict_normal [%d10]",
      "prefetch.global.L2::evict_last [%d10]",
      "prefetch.global.L2::evict_normal [%d10]",
      "applypriority.L2::evict_normal [%d10], 128",
      "applypriority.global.L2::evict_normal [%d10], 128",
      "griddepcontrol.launch_dependents",
      "griddepcontrol.wait",
      "pmevent 3",
      "pmevent.mask 5",
      "nanosleep.u32 20",
      "nanosleep.u32 %r0",
      "createpolicy.cvt.L2.b64 %d20, 0x10f0000000000000",
      "cp.async.bulk.prefetch.L2.global [%d10], 256",
      "cp.async.bulk.prefetch.L2.global.L2::cache_hint [%d10], 256, %d20",
  };
  for (const char *first :
       {"L2::evict_last", "L2::evict_normal", "L2::evict_first", "L2::evict_unchanged"})
    for (const char *second : {"", ".L2::evict_first", ".L2::evict_unchanged"}) {
      const std::string both = std::string(first) + second;
      all.push_back("createpolicy.fractional." + both + ".b64 %d20, 0.5");
      all.push_back("createpolicy.fractional." + both + ".b64 %d20");
      for (const char *space : {"", ".global"})
        all.push_back(std::string("createpolicy.range") + space + "." + both +
                      ".b64 %d20, [%d10], 64, 128");
    }
  return all;
}

}  // namespace

TEST(hints_in_every_form) {
  Device device;
  auto *memory = device.array<uint32_t>(1024);
  for (const std::string &hint : hints()) {
    // A policy that was made is used.
    auto program = device.load(module(".const .align 64 .b8 constants[128];\n" + kernel("k", 1, R"(
      .local .align 64 .b8 mine[128]; mov.u64 %d12, mine; mov.u64 %d11, constants;
      mov.u64 %d10, %d0; mov.u64 %d20, 0x1000000000000000;
      mul.wide.u32 %d13, %r0, 4; add.s64 %d13, %d13, %d0; add.u32 %r4, %r0, 17;
      st.global.u32 [%d13], %r4; st.local.u32 [%d12], %r0;
      )" + hint + R"(;
      ld.global.L2::cache_hint.u32 %r5, [%d13], %d20; ld.local.u32 %r6, [%d12];
      mad.lo.u32 %r5, %r5, 1000, %r6; add.u32 %r5, %r5, 1;
      st.global.L2::cache_hint.u32 [%d13], %r5, %d20;)")));
    CHECK(program);
    rig::Status status = device.launch(program, "k", {1}, {32}, Parameters().add(memory));
    if (!status.ok()) check::fail(__FILE__, __LINE__, hint + ": " + status.message);
    for (uint32_t i = 0; i < 32; ++i)
      if (memory[i] != (i + 17) * 1000 + i + 1) {
        check::fail(__FILE__, __LINE__, hint);
        break;
      }
    proven::add_text(hint, 32, proven::kNoEffect);
  }
}

// What is discarded is no longer promised; what lies beside it is.
TEST(discards) {
  Device device;
  auto *memory = device.array<uint32_t>(128);
  for (const char *form : {"discard.L2", "discard.global.L2"}) {
    for (uint32_t i = 0; i < 128; ++i) memory[i] = i;
    auto program = device.load(module(kernel("k", 1, std::string(form) + " [%d0+128], 128;")));
    CHECK_OK(device.launch(program, "k", {1}, {1}, Parameters().add(memory)));
    for (uint32_t i = 0; i < 128; ++i) CHECK(i / 32 == 1 || memory[i] == i);
    proven::add(form, 96, false, proven::kNoEffect);
  }
}

TEST(hints_that_are_refused) {
  Device device;
  for (const char *bad :
       {"prefetch.L3 [%d0]", "prefetch.global.L1 %d0", "prefetch.shared.L1 [%d0]",
        "prefetch.local.L2::evict_last [%d0]", "prefetch [%d0]", "prefetchu.L2 [%d0]",
        "griddepcontrol.stop", "griddepcontrol", "createpolicy.L2::evict_last.b64 %d4",
        "createpolicy.fractional.b64 %d4", "createpolicy.fractional.L2::evict_last.b32 %r4",
        "discard.global.L2 [%d0], 64", "applypriority.global.L2::evict_last [%d0], 128"}) {
    auto program = device.load(module(kernel("k", 1, std::string(bad) + ";")));
    if (program->find_kernel("k")->translate().code != 218)
      check::fail(__FILE__, __LINE__, std::string("not refused: ") + bad);
  }
}
