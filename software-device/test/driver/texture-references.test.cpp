// Texture and surface references: bound by name, and what a launch was given stays.
#include "images.h"

namespace {

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
  EXPECT(CUDA_ERROR_INVALID_VALUE, cuTexRefSetArray(reference, array, 2));
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
  const CMUnitTest tests[] = {TEST(references)};
  return cmocka_run_group_tests(tests, nullptr, nullptr);
}
