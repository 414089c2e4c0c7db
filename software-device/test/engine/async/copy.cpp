// cp.async in every spelling, and the instructions that wait for it.
#include <algorithm>

#include "../behaviour/check.h"
#include "../proven.h"

using namespace check;
using rig::Device;
using rig::Parameters;

namespace {

// How much of the source is wanted.
enum class Limit { All, Register, Immediate, Ignore, Take };
constexpr const char *kLimits[] = {"", ", %r7", ", 3", ", %p1", ", !%p1"};
constexpr const char *kOperands[] = {"", " size, n", " size, n", " size, ignore", " size, ignore"};

struct Form {
  std::string text;
  unsigned size;
  Limit limit;
  bool policy;
};

constexpr unsigned kThreads = 64, kBusy = 60;  // who copies at all

// Each thread fills its place, copies to it from 16 bytes further on, and writes out what is there.
std::string copy_kernel(const std::string &name, const Form &form, const std::string &wait) {
  const std::string n = std::to_string(form.size);
  return kernel(
      name, 2,
      ".shared .align 16 .b8 buffer[1024]; mov.u32 %r4, buffer; mul.lo.u32 %r5, %r0, " + n +
          "; add.s32 %r6, %r4, %r5; cvt.u64.u32 %d4, %r5; add.s64 %d5, %d1, %d4;"
          "mov.u32 %r9, 0xeeeeeeee; mov.u32 %r10, 0;\n"
          "FILL: add.u32 %r11, %r6, %r10; st.shared.u32 [%r11], %r9;"
          "add.u32 %r10, %r10, 4; setp.lt.u32 %p0, %r10, " +
          n +
          "; @%p0 bra FILL;\n"
          "rem.u32 %r7, %r0, 20; and.b32 %r8, %r0, 1; setp.eq.u32 %p1, %r8, 1;"
          "createpolicy.fractional.L2::evict_first.b64 %d6, 0f3F000000;"
          "setp.ge.u32 %p2, %r0, " +
          std::to_string(kBusy) + "; @%p2 bra SKIP;\n" + form.text + " [%r6], [%d5+16], " + n +
          kLimits[static_cast<int>(form.limit)] + (form.policy ? ", %d6;\n" : ";\n") + wait +
          "SKIP: mov.u32 %r10, 0; add.s64 %d7, %d0, %d4;\n"
          "OUT: add.u32 %r11, %r6, %r10; ld.shared.u32 %r12, [%r11];"
          "st.global.u32 [%d7], %r12; add.s64 %d7, %d7, 4; add.u32 %r10, %r10, 4;"
          "setp.lt.u32 %p0, %r10, " +
          n + "; @%p0 bra OUT;");
}

unsigned wanted(const Form &form, unsigned thread) {
  const bool odd = thread & 1;
  switch (form.limit) {
    case Limit::Register:
      return std::min(thread % 20, form.size);
    case Limit::Immediate:
      return 3;
    case Limit::Ignore:
      return odd ? 0 : form.size;
    case Limit::Take:
      return odd ? form.size : 0;
    default:
      return form.size;
  }
}

struct Bench {
  Device device;
  uint8_t *out = device.array<uint8_t>(1024), *in = device.array<uint8_t>(1040);

  Bench() {
    for (unsigned i = 0; i < 1040; ++i) in[i] = static_cast<uint8_t>(i * 7 + 1);
  }
  // How many bytes were compared; 0 if one was wrong.
  size_t run(const std::shared_ptr<rig::Program> &program, const std::string &name,
             const Form &form) {
    CHECK_OK(device.launch(program, name.c_str(), {1}, {kThreads}, Parameters().add(out).add(in)));
    for (unsigned thread = 0; thread < kThreads; ++thread)
      for (unsigned b = 0; b < form.size; ++b) {
        const unsigned at = thread * form.size + b;
        const uint8_t copied = b < wanted(form, thread) ? in[at + 16] : 0;
        if (out[at] == (thread < kBusy ? copied : 0xee)) continue;
        check::fail(__FILE__, __LINE__, form.text + kOperands[static_cast<int>(form.limit)]);
        return 0;
      }
    return kThreads * form.size;
  }
};

}  // namespace

TEST(asynchronous_copies_in_every_form) {
  std::vector<Form> forms;
  for (const char *level : {"ca", "cg"})
    for (const char *space : {".shared", ".shared::cta"})
      for (const char *hint : {"", ".L2::cache_hint"})
        for (const char *prefetch : {"", ".L2::64B", ".L2::128B", ".L2::256B"})
          for (unsigned size : {4u, 8u, 16u})
            for (Limit limit :
                 {Limit::All, Limit::Register, Limit::Immediate, Limit::Ignore, Limit::Take}) {
              if (std::string(level) == "cg" && size != 16) continue;
              forms.push_back(
                  {std::string("cp.async.") + level + space + ".global" + hint + prefetch, size,
                   limit, *hint != 0});
            }
  std::string text;
  for (size_t i = 0; i < forms.size(); ++i)
    text += copy_kernel("k" + std::to_string(i), forms[i], "cp.async.wait_all;\n");
  Bench bench;
  auto program = bench.device.load(module(text));
  for (size_t i = 0; i < forms.size(); ++i)
    proven::add(forms[i].text + kOperands[static_cast<int>(forms[i].limit)],
                bench.run(program, "k" + std::to_string(i), forms[i]));
}

TEST(asynchronous_copies_are_waited_for) {
  const Form copy{"cp.async.ca.shared.global", 16, Limit::All, false};
  const std::pair<const char *, const char *> kWaits[] = {
      {"cp.async.wait_all", "cp.async.wait_all;\n"},
      {"cp.async.wait_group", "cp.async.commit_group; cp.async.wait_group 0;\n"},
      {"cp.async.commit_group",
       "cp.async.commit_group; cp.async.commit_group; cp.async.wait_group 1;\n"},
  };
  Bench bench;
  for (auto [form, wait] : kWaits) {
    auto program = bench.device.load(module(copy_kernel("k", copy, wait)));
    proven::add(form, bench.run(program, "k", copy));
  }
}
