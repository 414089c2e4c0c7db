// Each way in which kernels of real libraries spell matrix instructions is understood.
#include "../behaviour/check.h"

using namespace check;
using rig::Device;

TEST(spellings_of_real_kernels) {
  struct Spelling {
    const char *instruction, *operands;
  };
  static constexpr const char *kF4 =
      "{%f0,%f1,%f2,%f3}, {%v0,%v1,%v2,%v3}, {%v4,%v5}, {%f0,%f1,%f2,%f3}";
  static constexpr const char *kF8 =
      "{%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, {%v0,%v1}, {%v2,%v3}, "
      "{%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}";
  static constexpr const char *kHalf = "{%f0,%f1,%f2,%f3}, {%v0,%v1}, {%v4}, {%f0,%f1,%f2,%f3}";
  static constexpr const char *kWide =
      "{%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, "
      "{%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}";
  static constexpr const char *kNarrow =
      "{%v0,%v1,%v2,%v3}, {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, "
      "{%v0,%v1,%v2,%v3}";
  static constexpr const char *kBytes =
      "{%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, {%v0,%v1}, {%v2,%v3}, "
      "{%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}";
  static constexpr const char *kLoad = "{%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, [%r4+32], %r5";
  static constexpr const char *kLoadBytes = "{%v0,%v1}, [%r4], 24";
  static constexpr const char *kRows = "{%v0,%v1,%v2,%v3}, [%r4+16]";
  static constexpr Spelling kSpellings[] = {
      {"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32", kF4},
      {"mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32", kF4},
      {"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32", kF4},
      {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e4m3.f32", kF4},
      {"mma.sync.aligned.m16n8k32.row.col.f32.e5m2.e4m3.f32", kF4},
      {"mma.sync.aligned.m16n8k32.row.col.f32.e4m3.e5m2.f32", kF4},
      {"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32", kHalf},
      {"mma.sync.aligned.m16n8k8.row.col.f32.bf16.bf16.f32", kHalf},
      {"mma.sync.aligned.m8n8k4.row.col.f32.f16.f16.f32", kF8},
      {"mma.sync.aligned.m8n8k4.row.row.f32.f16.f16.f32", kF8},
      {"mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64", "{%w0,%w1}, {%w2}, {%w3}, {%w0,%w1}"},
      {"ldmatrix.sync.aligned.x4.m8n8.shared.b16", kRows},
      {"ldmatrix.sync.aligned.x4.trans.m8n8.shared.b16", kRows},
      {"ldmatrix.sync.aligned.m8n8.x4.shared.b16", kRows},
      {"ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16", kRows},
      {"stmatrix.sync.aligned.m8n8.x4.shared.b16", "[%r4], {%v0,%v1,%v2,%v3}"},
      {"wmma.load.a.sync.aligned.row.m32n8k16.shared.f16", kLoad},
      {"wmma.load.a.sync.aligned.col.m32n8k16.shared.f16", kLoad},
      {"wmma.load.b.sync.aligned.col.m32n8k16.shared.f16", kLoad},
      {"wmma.load.a.sync.aligned.row.m16n16k16.shared.s8", kLoadBytes},
      {"wmma.load.a.sync.aligned.col.m16n16k16.shared.s8", kLoadBytes},
      {"wmma.load.b.sync.aligned.row.m16n16k16.shared.s8", kLoadBytes},
      {"wmma.load.b.sync.aligned.col.m16n16k16.shared.s8", kLoadBytes},
      {"wmma.mma.sync.aligned.row.col.m32n8k16.f32.f32", kWide},
      {"wmma.mma.sync.aligned.col.col.m32n8k16.f32.f32", kWide},
      {"wmma.mma.sync.aligned.row.col.m32n8k16.f16.f16", kNarrow},
      {"wmma.mma.sync.aligned.col.col.m32n8k16.f16.f16", kNarrow},
      {"wmma.mma.sync.aligned.row.row.m16n16k16.s32.s8.s8.s32.satfinite", kBytes},
      {"wmma.mma.sync.aligned.col.row.m16n16k16.s32.s8.s8.s32.satfinite", kBytes},
      {"wmma.mma.sync.aligned.row.col.m16n16k16.s32.s8.s8.s32.satfinite", kBytes},
      {"wmma.mma.sync.aligned.col.col.m16n16k16.s32.s8.s8.s32.satfinite", kBytes},
      {"wmma.store.d.sync.aligned.row.m16n16k16.shared.s32",
       "[%r4], {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, %r5"},
      {"wmma.store.d.sync.aligned.col.m32n8k16.shared.f32",
       "[%d1], {%f0,%f1,%f2,%f3,%f4,%f5,%f6,%f7}, %r5"},
      {"wmma.store.d.sync.aligned.col.m32n8k16.shared.f16", "[%d1], {%v0,%v1,%v2,%v3}, 40"},
  };
  Device device(1);
  for (const Spelling &one : kSpellings) {
    std::string text = std::string(one.instruction) + " " + one.operands + ";\n";
    auto program =
        device.load(module(kernel("k", 1, ".reg .b32 %v<8>; .reg .f64 %w<4>;\n" + text)));
    softdev::Status status = program->find_kernel("k")->translate();
    if (!status.ok()) fail(__FILE__, __LINE__, text + status.message);
  }
}

TEST(wmma_before_ptx_6_3_has_no_aligned) {
  Device device(1);
  const std::string body =
      ".reg .b32 %v<8>;\nwmma.load.a.sync.row.m16n16k16.f16 {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, "
      "[%d0];";
  auto old = device.load(".version 6.0\n.target sm_70\n.address_size 64\n" + kernel("k", 1, body));
  CHECK_OK(old->find_kernel("k")->translate());
  auto later = device.load(module(kernel("k", 1, body)));
  CHECK_FAILS(later->find_kernel("k")->translate(), 218, ".sync.aligned");
}
