// Texture and surface objects, as kernels see them.
#include "images.h"

namespace {

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
  // Freed, or never there.
  refused([](auto &linear) { linear.devPtr += uint64_t{1} << 30; });
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

// One may be described as larger than its memory, and is no way beyond it.
void larger_than_its_memory(void **) {
  CUmodule module = load();
  CUdeviceptr data, out;
  OK(cuMemAlloc_v2(&data, 16));
  OK(cuMemAlloc_v2(&out, 128));
  const uint32_t in[4] = {5, 6, 7, 8};
  OK(cuMemcpyHtoD_v2(data, in, 16));
  CUDA_RESOURCE_DESC resource = {};
  resource.resType = CU_RESOURCE_TYPE_LINEAR;
  resource.res.linear = {data, CU_AD_FORMAT_UNSIGNED_INT32, 1, 4096};
  CUDA_TEXTURE_DESC settings = {};
  settings.flags = kReadAsInteger;
  CUtexObject texture;
  OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
  void *arguments[] = {&texture, &out};
  // Lanes fetch elements -4 and up: the first eight get what is before it, and all that is in it.
  OK(cuLaunchKernel(kernel(module, "linear"), 1, 1, 1, 8, 1, 1, 0, nullptr, arguments, nullptr));
  uint32_t got[8];
  OK(cuMemcpyDtoH_v2(got, out, 32));
  for (uint32_t i = 0; i < 8; ++i) assert_int_equal(got[i], i < 4 ? 0 : in[i - 4]);
  OK(cuLaunchKernel(kernel(module, "linear"), 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  EXPECT(CUDA_ERROR_ILLEGAL_ADDRESS, cuCtxSynchronize());
}

// Objects that are destroyed while kernels use them, or are queued that will, live until those are
// done.
void destroyed_in_use(void **) {
  CUmodule module = load();
  CUarray array = make_array();
  CUDA_RESOURCE_DESC resource = of_array(array);
  CUDA_TEXTURE_DESC settings = {};
  CUtexObject texture, later;
  OK(cuTexObjectCreate(&texture, &resource, &settings, nullptr));
  OK(cuTexObjectCreate(&later, &resource, &settings, nullptr));
  void *flag;
  OK(cuMemHostAlloc(&flag, 4, CU_MEMHOSTALLOC_DEVICEMAP));
  *static_cast<volatile uint32_t *>(flag) = 0;
  void *arguments[] = {&texture, &flag};
  CUstream stream;
  OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  OK(cuLaunchKernel(kernel(module, "until"), 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  arguments[0] = &later;
  OK(cuLaunchKernel(kernel(module, "until"), 1, 1, 1, 1, 1, 1, 0, stream, arguments, nullptr));
  for (int i = 0; i < 100; ++i) {
    CUtexObject more;
    OK(cuTexObjectCreate(&more, &resource, &settings, nullptr));
    OK(cuTexObjectDestroy(more));
  }
  OK(cuTexObjectDestroy(texture));
  OK(cuTexObjectDestroy(later));
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectDestroy(later));
  CUDA_RESOURCE_DESC of_later;
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexObjectGetResourceDesc(&of_later, later));
  __atomic_store_n(static_cast<uint32_t *>(flag), 1, __ATOMIC_RELEASE);
  OK(cuStreamSynchronize(stream));
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
      TEST(freed_memory),
      TEST(larger_than_its_memory),
      TEST(destroyed_in_use),
  };
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
