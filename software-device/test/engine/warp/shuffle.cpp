// shfl: values of other lanes, by the ISA's pseudo-code.
#include "warp.h"

using namespace warp;

namespace {

enum Mode { Up, Down, Butterfly, Index };
constexpr const char *kModes[] = {"up", "down", "bfly", "idx"};

void shuffled(Mode mode, const Group &group, unsigned lane, bool predicate, Result *result) {
  const int clamp = static_cast<int>(group.c[lane] & 31);
  const int segment = static_cast<int>((group.c[lane] >> 8) & 31);
  const int b = static_cast<int>(group.b[lane] & 31), self = static_cast<int>(lane);
  const int most = (self & segment) | (clamp & ~segment), least = self & segment;
  int from = 0;
  bool inside = false;
  switch (mode) {
    case Up:
      from = self - b;
      inside = from >= most;
      break;
    case Down:
      from = self + b;
      inside = from <= most;
      break;
    case Butterfly:
      from = self ^ b;
      inside = from <= most;
      break;
    case Index:
      from = least | (b & ~segment);
      inside = from <= most;
      break;
  }
  if (!inside) from = self;
  result->p = predicate && inside;
  result->any = !group.has(static_cast<unsigned>(from));
  if (!result->any) result->d = static_cast<uint32_t>(group.a[from]);
}

std::vector<Case> cases(bool implicit) {
  std::vector<Case> all;
  for (Mode mode : {Up, Down, Butterfly, Index})
    for (bool predicate : {false, true}) {
      Case one;
      one.form = std::string("shfl.") + (implicit ? "" : "sync.") + kModes[mode] + ".b32";
      one.text =
          one.form + (predicate ? " $d|$p" : " $d") + ", $a, $b, $c" + (implicit ? ";" : ", $m;");
      if (predicate) one.form += "|p";
      one.reference = [=](const Group &group, unsigned lane, Result *result) {
        shuffled(mode, group, lane, predicate, result);
      };
      // Half of them as compilers write them; of the others all 32 bits are wild.
      one.operands = [=](std::mt19937 &random) -> Operands {
        const auto a = static_cast<uint32_t>(random());
        static constexpr uint32_t kUsual[] = {0x1f, 0, 0x181f, 0x1800, 0x1c03, 0x1e01, 0x1000};
        if (random() & 1)
          return {a, static_cast<uint32_t>(random() % 32), kUsual[random() % std::size(kUsual)]};
        return {a, static_cast<uint32_t>(random()), static_cast<uint32_t>(random())};
      };
      one.implicit = implicit;
      one.warps = 768;
      all.push_back(one);
    }
  return all;
}

}  // namespace

TEST(shuffles) { run(cases(false)); }
TEST(shuffles_without_members) { run(cases(true)); }

// Every distance, clamp and segment mask on every lane of a whole warp. Lanes work their operands
// out from the number of the thread: the lane, five bits of b, five of the clamp, five of the mask.
TEST(shuffles_with_all_operands) {
  rig::Device device;
  std::string text;
  for (const char *mode : kModes)
    text += check::kernel(mode, 1,
                          R"(
      shr.u32 %r4, %r3, 5; and.b32 %r4, %r4, 31; shr.u32 %r5, %r3, 10; and.b32 %r6, %r5, 31;
      shr.u32 %r5, %r5, 5; shl.b32 %r5, %r5, 8; or.b32 %r5, %r5, %r6;
      mul.lo.u32 %r7, %r3, 0x9e3779b1; shfl.sync.)" +
                              std::string(mode) + R"(.b32 %r8|%p1, %r7, %r4, %r5, -1;
      selp.u32 %r9, 1, 0, %p1; shfl.sync.)" +
                              mode + R"(.b32 %r10, %r7, %r4, %r5, -1;
      setp.ne.u32 %p2, %r8, %r10; @%p2 trap;
      mul.wide.u32 %d4, %r3, 8; add.s64 %d4, %d0, %d4; st.global.v2.u32 [%d4], {%r8, %r9};)");
  auto program = device.load(check::module(text));
  constexpr uint32_t kThreads = 1 << 20;
  auto *out = device.array<uint32_t>(kThreads * 2);
  for (Mode mode : {Up, Down, Butterfly, Index}) {
    CHECK_OK(
        device.launch(program, kModes[mode], {kThreads / 256}, {256}, rig::Parameters().add(out)));
    Group group;
    group.members = ~0u;
    uint32_t wrong = 0;
    for (uint32_t warp = 0; warp < kThreads / 32; ++warp) {
      for (uint32_t lane = 0; lane < 32; ++lane) {
        group.a[lane] = uint32_t{(warp * 32 + lane) * 0x9e3779b1u};
        group.b[lane] = warp % 32;
        group.c[lane] = warp / 32 % 32 | warp / 1024 << 8;
      }
      for (uint32_t lane = 0; lane < 32; ++lane) {
        Result want;
        shuffled(mode, group, lane, true, &want);
        const uint32_t *got = out + (warp * 32 + lane) * 2;
        wrong += got[0] != want.d || got[1] != want.p;
      }
    }
    if (wrong)
      check::fail(__FILE__, __LINE__, std::string(kModes[mode]) + ": " + std::to_string(wrong));
    for (const char *predicate : {"", "|p"})
      proven::add(std::string("shfl.sync.") + kModes[mode] + ".b32" + predicate, kThreads);
  }
}
