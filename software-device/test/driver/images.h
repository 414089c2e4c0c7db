// Kernels that read textures and write surfaces, and an image for them.
#pragma once

#include <cmath>

#include "support.h"

inline const char kImages[] = R"(
.version 7.0
.target sm_70
.address_size 64
.global .texref tex;
.global .surfref surf;

// out[i] = the four components at (x, y) = (in[2 i], in[2 i + 1])
.visible .entry fetch(.param .u64 texture, .param .u64 in, .param .u64 out)
{
  .reg .b32 %r<4>; .reg .f32 %f<6>; .reg .b64 %d<8>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 8; add.s64 %d1, %d1, %d3;
  mul.wide.u32 %d4, %r0, 16; add.s64 %d2, %d2, %d4;
  ld.global.v2.f32 {%f0, %f1}, [%d1];
  tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [%d0, {%f0, %f1}];
  st.global.v4.f32 [%d2], {%f2, %f3, %f4, %f5};
  ret;
}
// The same of the reference.
.visible .entry named(.param .u64 in, .param .u64 out)
{
  .reg .b32 %r<4>; .reg .f32 %f<6>; .reg .b64 %d<8>;
  ld.param.u64 %d1, [in]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; mul.wide.u32 %d3, %r0, 8; add.s64 %d1, %d1, %d3;
  mul.wide.u32 %d4, %r0, 16; add.s64 %d2, %d2, %d4;
  ld.global.v2.f32 {%f0, %f1}, [%d1];
  tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [tex, {%f0, %f1}];
  st.global.v4.f32 [%d2], {%f2, %f3, %f4, %f5};
  ret;
}
// out[i] = element i - 4 of linear memory
.visible .entry linear(.param .u64 texture, .param .u64 out)
{
  .reg .b32 %r<6>; .reg .b64 %d<8>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d2, [out];
  mov.u32 %r0, %tid.x; sub.s32 %r1, %r0, 4; mul.wide.u32 %d4, %r0, 4; add.s64 %d2, %d2, %d4;
  tex.1d.v4.u32.s32 {%r2, %r3, %r4, %r5}, [%d0, {%r1}];
  st.global.u32 [%d2], %r2;
  ret;
}
// Adds one to elements of a surface; thread i is at (i, 1)
.visible .entry touch(.param .u64 surface, .param .u32 step)
{
  .reg .b32 %r<6>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [surface]; ld.param.u32 %r3, [step];
  mov.u32 %r0, %tid.x; mul.lo.u32 %r0, %r0, %r3; mov.u32 %r1, 1;
  suld.b.2d.b32.trap {%r2}, [%d0, {%r0, %r1}]; add.s32 %r2, %r2, 1;
  sust.b.2d.b32.trap [%d0, {%r0, %r1}], {%r2};
  ret;
}
.visible .entry touch_named()
{
  .reg .b32 %r<6>;
  mov.u32 %r0, %tid.x; shl.b32 %r0, %r0, 2; mov.u32 %r1, 1;
  sust.b.2d.b32.trap [surf, {%r0, %r1}], {%r0};
  ret;
}
// Fetches again and again until *flag is set.
.visible .entry until(.param .u64 texture, .param .u64 flag)
{
  .reg .pred %p; .reg .b32 %r<6>; .reg .b64 %d<2>;
  ld.param.u64 %d0, [texture]; ld.param.u64 %d1, [flag];
LOOP:
  mov.u32 %r0, 0;
  tex.1d.v4.u32.s32 {%r1, %r2, %r3, %r4}, [%d0, {%r0}];
  ld.volatile.global.u32 %r5, [%d1]; setp.eq.u32 %p, %r5, 0;
  @%p bra LOOP;
  ret;
}
)";

inline CUmodule load() {
  CUmodule module;
  OK(cuModuleLoadData(&module, kImages));
  return module;
}

inline constexpr unsigned kWidth = 12, kHeight = 7;
inline constexpr unsigned kReadAsInteger = 1, kNormalized = 2, kSurface = 2;

inline float value_at(unsigned x, unsigned y, unsigned c) {
  return static_cast<float>(x) + 100 * static_cast<float>(y) + 0.25f * static_cast<float>(c);
}

// An array of two floats each.
inline CUarray make_array(unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR of = {kWidth, kHeight, 0, CU_AD_FORMAT_FLOAT, 2, flags};
  CUarray array;
  OK(cuArray3DCreate_v2(&array, &of));
  std::vector<float> in;
  for (unsigned y = 0; y < kHeight; ++y)
    for (unsigned x = 0; x < kWidth; ++x)
      for (unsigned c = 0; c < 2; ++c) in.push_back(value_at(x, y, c));
  OK(cuMemcpyHtoA_v2(array, 0, in.data(), in.size() * 4));
  return array;
}

inline CUDA_RESOURCE_DESC of_array(CUarray array) {
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array;
  return resource;
}

// The values of 16 places, fetched by a kernel with the given first arguments.
struct Places {
  CUdeviceptr in, out;
  std::vector<float> at, values;
  Places() : values(64) {
    OK(cuMemAlloc_v2(&in, 128));
    OK(cuMemAlloc_v2(&out, 256));
    for (int i = 0; i < 16; ++i) {
      at.push_back(static_cast<float>(i) * 0.9f - 1);
      at.push_back(static_cast<float>(i % 5) * 1.7f - 0.6f);
    }
    OK(cuMemcpyHtoD_v2(in, at.data(), 128));
  }
  ~Places() {
    OK(cuMemFree_v2(in));
    OK(cuMemFree_v2(out));
  }
  void run(CUfunction function, const CUtexObject *texture) {
    CUtexObject handle = texture ? *texture : 0;
    void *with[] = {&handle, &in, &out}, *without[] = {&in, &out};
    OK(cuLaunchKernel(function, 1, 1, 1, 16, 1, 1, 0, nullptr, texture ? with : without, nullptr));
    OK(cuMemcpyDtoH_v2(values.data(), out, 256));
  }
  // To the nearest element, or between four, at the edges the outermost.
  void check(bool linear) const {
    for (unsigned i = 0; i < 16; ++i) {
      auto clamp = [](double v, double most) { return v < 0 ? 0 : v > most ? most : v; };
      double x = at[2 * i], y = at[2 * i + 1];
      if (linear) {
        x = clamp(std::floor((x - 0.5) * 256 + 0.5) / 256, kWidth - 1);
        y = clamp(std::floor((y - 0.5) * 256 + 0.5) / 256, kHeight - 1);
      } else {
        x = clamp(std::floor(x), kWidth - 1);
        y = clamp(std::floor(y), kHeight - 1);
      }
      for (unsigned c = 0; c < 2; ++c)
        assert_true(std::fabs(values[i * 4 + c] - (x + 100 * y + 0.25 * c)) < 1e-3);
      assert_true(values[i * 4 + 2] == 0 && values[i * 4 + 3] == 1);
    }
  }
};
