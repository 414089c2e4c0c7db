// Texture and surface objects, and references, as kernels see them.
#include <cmath>

#include "support.h"

namespace {

const char kImages[] = R"(
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

CUmodule load() {
  CUmodule module;
  OK(cuModuleLoadData(&module, kImages));
  return module;
}

constexpr unsigned kWidth = 12, kHeight = 7;
constexpr unsigned kReadAsInteger = 1, kNormalized = 2, kSurface = 2;

float value_at(unsigned x, unsigned y, unsigned c) {
  return static_cast<float>(x) + 100 * static_cast<float>(y) + 0.25f * static_cast<float>(c);
}

// An array of two floats each.
CUarray make_array(unsigned flags = 0) {
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

CUDA_RESOURCE_DESC of_array(CUarray array) {
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

void objects(void **) {
  CUmodule module = load();
  CUarray array = make_array();
  CUDA_RESOURCE_DESC resource = of_array(array), resource_back;
  CUDA_TEXTURE_DESC settings = {}, settings_back;
  CUDA_RESOURCE_VIEW_DESC view_back;
  settings.addressMode[0] = settings.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
  Places places;
  for (CUfilter_mode filter : {CU_TR_FILTER_MODE_POINT, CU_TR_FILTER_MODE_LINEAR}) {
    settings.filterMode = filter;
    CUtexObject texture;
    OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
    places.run(kernel(module, "fetch"), &texture);
    places.check(filter == CU_TR_FILTER_MODE_LINEAR);
    OK(cuTexObjectGetResourceDesc(&resource_back, texture));
    OK(cuTexObjectGetTextureDesc(&settings_back, texture));
    assert_ptr_equal(resource_back.res.array.hArray, array);
    assert_memory_equal(&settings, &settings_back, sizeof settings);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetResourceViewDesc(&view_back, texture));
    OK(cuTexObjectDestroy(texture));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(texture));
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetTextureDesc(&settings_back, texture));
  }
  OK(cuArrayDestroy(array));
  OK(cuModuleUnload(module));
}

void linear_and_pitched_memory(void **) {
  CUmodule module = load();
  CUdeviceptr data, out;
  OK(cuMemAlloc_v2(&data, 4096));
  OK(cuMemAlloc_v2(&out, 128));
  std::vector<uint32_t> in(1024), got(32);
  for (uint32_t i = 0; i < 1024; ++i) in[i] = i * 7 + 1;
  OK(cuMemcpyHtoD_v2(data, in.data(), 4096));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {data, CU_AD_FORMAT_UNSIGNED_INT32, 1, 80};
  CUDA_TEXTURE_DESC settings = {};
  settings.flags = kReadAsInteger;
  CUtexObject texture;
  OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
  void *arguments[] = {&texture, &out};
  OK(cuLaunchKernel(kernel(module, "linear"), 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  OK(cuMemcpyDtoH_v2(got.data(), out, 128));
  for (uint32_t i = 0; i < 32; ++i) assert_int_equal(got[i], i >= 4 && i < 24 ? in[i - 4] : 0);
  OK(cuTexObjectDestroy(texture));

  auto refused = [&](auto change) {
    CUDA_RESOURCE_DESC bad = resource;
    change(bad.res.linear);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &bad, &settings, nullptr));
  };
  refused([](auto &linear) { linear.devPtr += 4; });
  refused([](auto &linear) { linear.devPtr = 0; });
  refused([](auto &linear) { linear.sizeInBytes = 0; });
  refused([](auto &linear) { linear.sizeInBytes = size_t{1} << 40; });
  refused([](auto &linear) { linear.sizeInBytes = 1 << 20; });
  refused([](auto &linear) { linear.numChannels = 3; });

  // The same values as an array, in rows of our own.
  CUdeviceptr rows;
  size_t pitch;
  OK(cuMemAllocPitch_v2(&rows, &pitch, kWidth * 8, kHeight, 8));
  std::vector<float> row;
  for (unsigned y = 0; y < kHeight; ++y) {
    row.clear();
    for (unsigned x = 0; x < kWidth; ++x)
      for (unsigned c = 0; c < 2; ++c) row.push_back(value_at(x, y, c));
    OK(cuMemcpyHtoD_v2(rows + y * pitch, row.data(), kWidth * 8));
  }
  resource.resType = CU_RESOURCE_TYPE_PITCH2D;
  resource.res.pitch2D = {rows, CU_AD_FORMAT_FLOAT, 2, kWidth, kHeight, pitch};
  settings = {};
  settings.addressMode[0] = settings.addressMode[1] = CU_TR_ADDRESS_MODE_CLAMP;
  settings.filterMode = CU_TR_FILTER_MODE_LINEAR;
  OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
  Places places;
  places.run(kernel(module, "fetch"), &texture);
  places.check(true);
  OK(cuTexObjectDestroy(texture));
  auto refused_plane = [&](auto change) {
    CUDA_RESOURCE_DESC bad = resource;
    change(bad.res.pitch2D);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &bad, &settings, nullptr));
  };
  refused_plane([](auto &plane) { plane.pitchInBytes = kWidth * 8 - 32; });
  refused_plane([](auto &plane) { plane.pitchInBytes += 8; });
  refused_plane([](auto &plane) { plane.height = 100000; });
  refused_plane([](auto &plane) { plane.height = 60000; });
  refused_plane([](auto &plane) { plane.devPtr += 32; });
  OK(cuMemFree_v2(rows));
  OK(cuMemFree_v2(data));
  OK(cuMemFree_v2(out));
}

void settings_that_are_refused(void **) {
  CUarray array = make_array(), integers;
  CUDA_ARRAY3D_DESCRIPTOR of = {8, 8, 0, CU_AD_FORMAT_UNSIGNED_INT8, 4, 0};
  OK(cuArray3DCreate_v2(&integers, &of));
  CUDA_RESOURCE_DESC resource = of_array(array), other = of_array(integers);
  CUDA_TEXTURE_DESC plain = {};
  CUtexObject texture;
  auto refused = [&](const CUDA_RESOURCE_DESC &with, auto change) {
    CUDA_TEXTURE_DESC bad = plain;
    change(bad);
    EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &with, &bad, nullptr));
  };
  refused(resource, [](CUDA_TEXTURE_DESC &d) { d.flags = 0x4000; });
  refused(resource, [](CUDA_TEXTURE_DESC &d) { d.filterMode = static_cast<CUfilter_mode>(2); });
  refused(resource,
          [](CUDA_TEXTURE_DESC &d) { d.addressMode[2] = static_cast<CUaddress_mode>(4); });
  refused(other, [](CUDA_TEXTURE_DESC &d) {
    d.flags = kReadAsInteger;
    d.filterMode = CU_TR_FILTER_MODE_LINEAR;
  });
  resource.flags = 1;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &resource, &plain, nullptr));
  resource = of_array(nullptr);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &resource, &plain, nullptr));
  resource.resType = static_cast<CUresourcetype>(9);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &resource, &plain, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, nullptr, &plain, nullptr));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectCreate(&texture, &other, nullptr, nullptr));
  CUsurfObject surface;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuSurfObjectCreate(&surface, &other));
  OK(cuArrayDestroy(array));
  OK(cuArrayDestroy(integers));
}

// Another format for the same bytes; some of the layers; some of the levels.
void views(void **) {
  CUmodule module = load();
  CUDA_ARRAY3D_DESCRIPTOR of = {16, 16, 0, CU_AD_FORMAT_UNSIGNED_INT32, 1, 0};
  CUmipmappedArray mipmap;
  OK(cuMipmappedArrayCreate(&mipmap, &of, 5));
  for (unsigned i = 0; i < 5; ++i) {
    CUarray level;
    OK(cuMipmappedArrayGetLevel(&level, mipmap, i));
    std::vector<float> in((16u >> i) * (16u >> i), static_cast<float>(i) + 0.5f);
    OK(cuMemcpyHtoA_v2(level, 0, in.data(), in.size() * 4));
  }
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
  resource.res.mipmap.hMipmappedArray = mipmap;
  CUDA_TEXTURE_DESC settings = {};
  settings.flags = kNormalized;
  settings.maxMipmapLevelClamp = 9;
  CUDA_RESOURCE_VIEW_DESC view = {}, back;
  view.format = CU_RES_VIEW_FORMAT_FLOAT_1X32;
  view.width = view.height = 16;
  view.firstMipmapLevel = 2;
  view.lastMipmapLevel = 3;
  CUtexObject texture;
  OK(cuTexObjectCreate(&texture, &resource, &settings, &view));
  Places places;
  places.run(kernel(module, "fetch"), &texture);
  for (unsigned i = 0; i < 16; ++i) assert_true(places.values[i * 4] == 2.5f);
  OK(cuTexObjectGetResourceViewDesc(&back, texture));
  assert_memory_equal(&view, &back, sizeof view);
  OK(cuTexObjectDestroy(texture));
  auto refused = [&](CUresult expected, auto change) {
    CUDA_RESOURCE_VIEW_DESC bad = view;
    change(bad);
    EXPECT(expected, cuTexObjectCreate(&texture, &resource, &settings, &bad));
  };
  refused(CUDA_ERROR_INVALID_VALUE, [](auto &v) { v.format = CU_RES_VIEW_FORMAT_UINT_2X32; });
  refused(CUDA_ERROR_INVALID_VALUE, [](auto &v) { v.lastMipmapLevel = 5; });
  refused(CUDA_ERROR_INVALID_VALUE, [](auto &v) { v.firstMipmapLevel = 4; });
  refused(CUDA_ERROR_INVALID_VALUE, [](auto &v) { v.width = 8; });
  refused(CUDA_ERROR_NOT_SUPPORTED, [](auto &v) { v.format = CU_RES_VIEW_FORMAT_UNSIGNED_BC1; });
  OK(cuMipmappedArrayDestroy(mipmap));
}

void surfaces(void **) {
  CUmodule module = load();
  CUarray array = make_array(kSurface);
  CUDA_RESOURCE_DESC resource = of_array(array), back;
  CUsurfObject surface;
  OK(cuSurfObjectCreate(&surface, &resource));
  OK(cuSurfObjectGetResourceDesc(&back, surface));
  assert_ptr_equal(back.res.array.hArray, array);
  unsigned step = 8;
  void *arguments[] = {&surface, &step};
  OK(cuLaunchKernel(kernel(module, "touch"), 1, 1, 1, kWidth, 1, 1, 0, nullptr, arguments,
                    nullptr));
  std::vector<uint32_t> out(kWidth * kHeight * 2);
  OK(cuMemcpyAtoH_v2(out.data(), array, 0, out.size() * 4));
  for (unsigned i = 0; i < out.size(); ++i) {
    float value = value_at(i / 2 % kWidth, i / 2 / kWidth, i % 2);
    uint32_t bits;
    memcpy(&bits, &value, 4);
    assert_int_equal(out[i], bits + (i / 2 / kWidth == 1 && i % 2 == 0));
  }
  // Outside: the kernel is ended, and the context with it.
  step = 16;
  OK(cuLaunchKernel(kernel(module, "touch"), 1, 1, 1, kWidth, 1, 1, 0, nullptr, arguments,
                    nullptr));
  EXPECT(CUDA_ERROR_LAUNCH_FAILED, cuCtxSynchronize());
}

void stale_handles(void **) {
  CUmodule module = load();
  CUarray array = make_array();
  CUDA_RESOURCE_DESC resource = of_array(array);
  CUDA_TEXTURE_DESC settings = {};
  CUtexObject texture;
  OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
  OK(cuTexObjectDestroy(texture));
  CUdeviceptr buffer;
  OK(cuMemAlloc_v2(&buffer, 512));
  void *arguments[] = {&texture, &buffer, &buffer};
  OK(cuLaunchKernel(kernel(module, "fetch"), 1, 1, 1, 16, 1, 1, 0, nullptr, arguments, nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

// A texture that outlives its memory is no way to touch it.
void freed_memory(void **) {
  CUmodule module = load();
  CUdeviceptr data, out;
  OK(cuMemAlloc_v2(&data, 8 << 20));
  OK(cuMemAlloc_v2(&out, 128));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {data, CU_AD_FORMAT_UNSIGNED_INT32, 1, 4 << 20};
  CUDA_TEXTURE_DESC settings = {};
  CUtexObject texture;
  OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
  OK(cuMemFree_v2(data));
  void *arguments[] = {&texture, &out};
  OK(cuLaunchKernel(kernel(module, "linear"), 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

// Objects that are destroyed while kernels use them live until those are done.
void destroyed_in_use(void **) {
  CUmodule module = load();
  CUarray array = make_array();
  CUDA_RESOURCE_DESC resource = of_array(array);
  CUDA_TEXTURE_DESC settings = {};
  CUtexObject texture;
  OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
  void *flag;
  OK(cuMemHostAlloc(&flag, 4, CU_MEMHOSTALLOC_DEVICEMAP));
  *static_cast<volatile uint32_t *>(flag) = 0;
  void *arguments[] = {&texture, &flag};
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuLaunchKernel(kernel(module, "until"), 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  for (int i = 0; i < 100; ++i) {
    CUtexObject more;
    OK(cuTexObjectCreate(&more, &resource, &settings, nullptr));
    OK(cuTexObjectDestroy(more));
  }
  // The first one may or may not have been found by now: the kernel ends well, or with the fault
  // of a handle that is no more.
  OK(cuTexObjectDestroy(texture));
  *static_cast<volatile uint32_t *>(flag) = 1;
  CUresult result = cuStreamSynchronize(stream);
  assert_true(result == CUDA_SUCCESS || result == CUDA_ERROR_ILLEGAL_ADDRESS);
}

void references(void **) {
  CUmodule module = load();
  CUtexref reference, none;
  CUdeviceptr address;
  size_t size;
  OK(cuModuleGetTexRef(&reference, module, "tex"));
  OK(cuModuleGetTexRef(&none, module, "tex"));
  assert_ptr_equal(reference, none);
  EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&none, module, "surf"));
  EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetTexRef(&none, module, "nothing"));
  EXPECT(CUDA_ERROR_NOT_FOUND, cuModuleGetGlobal_v2(&address, &size, module, "tex"));
  CUarray array = make_array(kSurface), back;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexRefGetArray(&back, reference));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexRefSetArray(reference, array, 0));
  OK(cuTexRefSetArray(reference, array, 1));
  OK(cuTexRefSetAddressMode(reference, 0, CU_TR_ADDRESS_MODE_CLAMP));
  OK(cuTexRefSetAddressMode(reference, 1, CU_TR_ADDRESS_MODE_CLAMP));
  OK(cuTexRefSetFilterMode(reference, CU_TR_FILTER_MODE_LINEAR));
  OK(cuTexRefSetFlags(reference, 0));
  OK(cuParamSetTexRef(kernel(module, "named"), -1, reference));
  OK(cuTexRefGetArray(&back, reference));
  assert_ptr_equal(array, back);
  Places places;
  places.run(kernel(module, "named"), nullptr);
  places.check(true);

  // What a launch was given stays, whatever happens to the reference behind it.
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  Gate gate;
  gate.hold(stream);
  void *arguments[] = {&places.in, &places.out};
  OK(cuLaunchKernel(kernel(module, "named"), 1, 1, 1, 16, 1, 1, 0, stream, arguments, nullptr));
  OK(cuTexRefSetFilterMode(reference, CU_TR_FILTER_MODE_POINT));
  gate.open();
  OK(cuStreamSynchronize(stream));
  OK(cuMemcpyDtoH_v2(places.values.data(), places.out, 256));
  places.check(true);
  places.run(kernel(module, "named"), nullptr);
  places.check(false);

  CUarray_format format;
  int channels, most;
  CUaddress_mode mode;
  float bias, least, color[4] = {1, 2, 3, 4}, color_back[4];
  unsigned flags;
  OK(cuTexRefGetFormat(&format, &channels, reference));
  assert_true(format == CU_AD_FORMAT_FLOAT && channels == 2);
  OK(cuTexRefSetMipmapLevelBias(reference, 0.5f));
  OK(cuTexRefGetMipmapLevelBias(&bias, reference));
  assert_true(bias == 0.5f);
  OK(cuTexRefSetMipmapLevelClamp(reference, 1, 2));
  OK(cuTexRefGetMipmapLevelClamp(&least, &bias, reference));
  assert_true(least == 1 && bias == 2);
  OK(cuTexRefSetBorderColor(reference, color));
  OK(cuTexRefGetBorderColor(color_back, reference));
  assert_memory_equal(color, color_back, sizeof color);
  OK(cuTexRefSetMaxAnisotropy(reference, 4));
  OK(cuTexRefGetMaxAnisotropy(&most, reference));
  assert_int_equal(most, 4);
  OK(cuTexRefGetAddressMode(&mode, reference, 1));
  assert_int_equal(mode, CU_TR_ADDRESS_MODE_CLAMP);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexRefGetAddressMode(&mode, reference, 3));
  OK(cuTexRefGetFlags(&flags, reference));
  assert_int_equal(flags, 0);

  // Linear memory that does not begin where it should.
  CUdeviceptr data;
  size_t offset = 0;
  OK(cuMemAlloc_v2(&data, 4096));
  OK(cuTexRefSetFormat(reference, CU_AD_FORMAT_UNSIGNED_INT8, 4));
  OK(cuTexRefSetAddress_v2(&offset, reference, data + 16, 256));
  assert_int_equal(offset, 16);
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexRefSetAddress_v2(nullptr, reference, data + 16, 256));
  OK(cuTexRefGetAddress_v2(&address, reference));
  assert_true(address == data);

  CUsurfref surface;
  OK(cuModuleGetSurfRef(&surface, module, "surf"));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuSurfRefGetArray(&back, surface));
  OK(cuSurfRefSetArray(surface, array, 0));
  OK(cuSurfRefGetArray(&back, surface));
  assert_ptr_equal(array, back);
  OK(cuLaunchKernel(kernel(module, "touch_named"), 1, 1, 1, 4, 1, 1, 0, nullptr, nullptr, nullptr));
  std::vector<uint32_t> row(4);
  OK(cuMemcpyAtoH_v2(row.data(), array, kWidth * 8, 16));
  for (uint32_t i = 0; i < 4; ++i) assert_int_equal(row[i], i * 4);

  OK(cuModuleUnload(module));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexRefSetFlags(reference, 0));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuSurfRefGetArray(&back, surface));
  OK(cuTexRefCreate(&reference));
  OK(cuTexRefSetFlags(reference, 2));
  OK(cuTexRefDestroy(reference));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexRefDestroy(reference));
}

}  // namespace

int main() {
  const CMUnitTest tests[] = {
      TEST(objects),
      TEST(linear_and_pitched_memory),
      TEST(settings_that_are_refused),
      TEST(views),
      TEST(surfaces),
      TEST(stale_handles),
      TEST(references),
      TEST(freed_memory),
      TEST(destroyed_in_use),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
