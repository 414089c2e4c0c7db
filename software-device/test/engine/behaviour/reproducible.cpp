// With one worker a run gives the same bits again: what depends on the order of blocks, warps and
// lanes, such as sums of floating-point atomics, text of printf, and who comes first.
#include "check.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

// Sums of different magnitudes whose rounding depends on their order; a ticket for each block; a
// lock that lanes fight for; blocks that wait for their predecessors.
const char *const kOrder = R"(
  cvt.rn.f32.u32 %f0, %r3; mul.f32 %f0, %f0, 0f3DCCCCCD; ex2.approx.f32 %f1, %f0;
  and.b32 %r4, %r3, 7; shl.b32 %r5, %r4, 2; sub.u32 %r5, %r5, 12; cvt.rn.f32.s32 %f2, %r5;
  ex2.approx.f32 %f2, %f2; rem.u32 %r6, %r3, 13; cvt.rn.f32.u32 %f3, %r6; mul.f32 %f3, %f3, %f2;
  red.global.add.f32 [%d0], %f3; atom.global.add.f32 %f4, [%d0+4], %f3;
  atom.global.add.u32 %r7, [%d0+8], 1;
  mul.wide.u32 %d4, %r3, 4; add.s64 %d5, %d0, %d4; st.global.u32 [%d5+64], %r7;
  st.global.f32 [%d5+32832], %f4;
  setp.ne.u32 %p0, %r0, 5; @%p0 bra END;
  AGAIN: atom.global.cas.b32 %r8, [%d0+12], 0, 1; setp.ne.u32 %p1, %r8, 0; @%p1 bra AGAIN;
  ld.volatile.global.u32 %r9, [%d0+16]; mad.lo.u32 %r9, %r9, 31, %r1;
  st.volatile.global.u32 [%d0+16], %r9; membar.gl; atom.global.exch.b32 %r8, [%d0+12], 0;
  END:)";

std::vector<uint32_t> run_once(Device &device, const std::shared_ptr<softdev::Program> &program) {
  constexpr size_t kWords = 16 + 2 * 8192;
  auto *out = device.array<uint32_t>(kWords);
  CHECK_OK(device.launch(program, "k", {64}, {128}, Parameters().add(out)));
  return {out, out + kWords};
}

}  // namespace

TEST(one_worker_gives_the_same_bits_again) {
  std::vector<uint32_t> first;
  for (int process = 0; process < 2; ++process) {
    Device device(1);
    auto program = device.load(module(kernel("k", 1, kOrder)));
    CHECK(program != nullptr);
    for (int run = 0; run < 3; ++run) {
      std::vector<uint32_t> words = run_once(device, program);
      CHECK(words[2] == 64 * 128 && words[4] != 0);
      if (first.empty()) first = words;
      CHECK(words == first);
    }
  }
}
