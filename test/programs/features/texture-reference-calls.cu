// All that a texture reference can be set to and asked for, sampled from linear memory, a pitched
// image, an array and the levels of a mipmap.
// flags: -lcuda -Xcompiler=-Wno-deprecated-declarations
#include <vector>

#include "../check.h"
#include "../check_driver.h"

extern "C" CUresult cuTexRefSetAddress2D_v2(CUtexref, const CUDA_ARRAY_DESCRIPTOR *, CUdeviceptr,
                                            size_t);

namespace {

const char *const kModule = R"(
.version 6.0
.target sm_52
.address_size 64
.global .texref line;
.global .texref image;
// out[x] = line[x]
.visible .entry fetch(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .f32 %f<5>;
  .reg .b64 %d<3>;
  ld.param.u64 %d0, [out];
  mov.u32 %r0, %tid.x;
  tex.1d.v4.f32.s32 {%f0, %f1, %f2, %f3}, [line, {%r0}];
  mul.wide.u32 %d1, %r0, 4;
  add.u64 %d0, %d0, %d1;
  st.global.f32 [%d0], %f0;
  ret;
}
// out[x] = image(x + 0.5, 0.5), or where coordinates are normalised ((x + 0.5) / 8, 0.5)
.visible .entry sample(.param .u64 out, .param .f32 scale, .param .f32 level)
{
  .reg .b32 %r<4>;
  .reg .f32 %f<10>;
  .reg .b64 %d<3>;
  ld.param.u64 %d0, [out];
  ld.param.f32 %f6, [scale];
  ld.param.f32 %f7, [level];
  mov.u32 %r0, %tid.x;
  cvt.rn.f32.u32 %f4, %r0;
  add.f32 %f4, %f4, 0f3F000000;
  mul.f32 %f4, %f4, %f6;
  mov.f32 %f5, 0f3F000000;
  tex.level.2d.v4.f32.f32 {%f0, %f1, %f2, %f3}, [image, {%f4, %f5}], %f7;
  mul.wide.u32 %d1, %r0, 4;
  add.u64 %d0, %d0, %d1;
  st.global.f32 [%d0], %f0;
  ret;
}
)";

constexpr unsigned kThreads = 12;
CUdeviceptr out;

void show(const char *what) {
  float host[kThreads];
  DRIVER(cuMemcpyDtoH(host, out, sizeof host));
  printf("%s:", what);
  for (float value : host) printf(" %g", value);
  printf("\n");
}

void describe(CUtexref reference) {
  CUaddress_mode mode;
  CUfilter_mode filter;
  CUarray_format format;
  int channels = -1, anisotropy = -1;
  unsigned flags = 99;
  float bias = -1, least = -1, most = -1, border[4] = {-1, -1, -1, -1};
  for (int dim = 0; dim < 3; dim++) {
    DRIVER(cuTexRefGetAddressMode(&mode, reference, dim));
    printf("address mode %d: %d\n", dim, mode);
  }
  SHOW_DRIVER(cuTexRefGetAddressMode(&mode, reference, 3));
  DRIVER(cuTexRefGetFilterMode(&filter, reference));
  printf("filter: %d\n", filter);
  DRIVER(cuTexRefGetMipmapFilterMode(&filter, reference));
  DRIVER(cuTexRefGetMipmapLevelBias(&bias, reference));
  DRIVER(cuTexRefGetMipmapLevelClamp(&least, &most, reference));
  printf("mipmap: filter %d, bias %g, levels %g to %g\n", filter, bias, least, most);
  DRIVER(cuTexRefGetMaxAnisotropy(&anisotropy, reference));
  DRIVER(cuTexRefGetBorderColor(border, reference));
  printf("anisotropy %d, border %g %g %g %g\n", anisotropy, border[0], border[1], border[2],
         border[3]);
  DRIVER(cuTexRefGetFlags(&flags, reference));
  DRIVER(cuTexRefGetFormat(&format, &channels, reference));
  printf("flags %u, format %#x, %d channels\n", flags, format, channels);
}

}  // namespace

int main() {
  CHECK(cudaFree(nullptr));
  CUmodule module;
  CUfunction fetch, sample;
  CUtexref line, image, none = nullptr;
  DRIVER(cuModuleLoadData(&module, kModule));
  DRIVER(cuModuleGetFunction(&fetch, module, "fetch"));
  DRIVER(cuModuleGetFunction(&sample, module, "sample"));
  DRIVER(cuModuleGetTexRef(&line, module, "line"));
  DRIVER(cuModuleGetTexRef(&image, module, "image"));
  DRIVER(cuMemAlloc(&out, kThreads * sizeof(float)));

  printf("-- as they begin\n");
  describe(line);
  CUarray array = nullptr;
  CUmipmappedArray mipmap = nullptr;
  CUdeviceptr address = 1;
  SHOW_DRIVER(cuTexRefGetArray(&array, line));
  SHOW_DRIVER(cuTexRefGetMipmappedArray(&mipmap, line));
  SHOW_DRIVER(cuTexRefGetAddress(&address, line));

  printf("-- linear memory\n");
  CUdeviceptr memory;
  std::vector<float> values(1024);
  for (size_t i = 0; i < values.size(); i++) values[i] = static_cast<float>(i) / 2;
  DRIVER(cuMemAlloc(&memory, values.size() * sizeof(float)));
  DRIVER(cuMemcpyHtoD(memory, values.data(), values.size() * sizeof(float)));
  size_t offset = 77;
  SHOW_DRIVER(cuTexRefSetFormat(line, CU_AD_FORMAT_FLOAT, 1));
  SHOW_DRIVER(cuTexRefSetAddress(&offset, line, memory, 8 * sizeof(float)));
  printf("offset %zu\n", offset);
  SHOW_DRIVER(cuTexRefGetAddress(&address, line));
  printf("the same address: %d\n", address == memory);
  void *parameters[] = {&out};
  DRIVER(cuLaunchKernel(fetch, 1, 1, 1, kThreads, 1, 1, 0, nullptr, parameters, nullptr));
  show("fetched, 8 of them");
  SHOW_DRIVER(cuTexRefSetAddress(&offset, line, memory + 3 * sizeof(float), 5 * sizeof(float)));
  printf("offset %zu\n", offset);

  printf("-- a pitched image\n");
  CUDA_ARRAY_DESCRIPTOR plane = {8, 4, CU_AD_FORMAT_FLOAT, 1};
  SHOW_DRIVER(cuTexRefSetAddress2D(image, &plane, memory, 512));
  SHOW_DRIVER(cuTexRefSetFormat(image, CU_AD_FORMAT_FLOAT, 1));
  SHOW_DRIVER(cuTexRefSetAddressMode(image, 0, CU_TR_ADDRESS_MODE_BORDER));
  SHOW_DRIVER(cuTexRefSetAddressMode(image, 1, CU_TR_ADDRESS_MODE_CLAMP));
  float border[4] = {-3, 1, 2, 4};
  SHOW_DRIVER(cuTexRefSetBorderColor(image, border));
  SHOW_DRIVER(cuTexRefSetFilterMode(image, CU_TR_FILTER_MODE_POINT));
  describe(image);
  float scale = 1, level = 0;
  void *sampled[] = {&out, &scale, &level};
  DRIVER(cuLaunchKernel(sample, 1, 1, 1, kThreads, 1, 1, 0, nullptr, sampled, nullptr));
  show("sampled");
  SHOW_DRIVER(cuTexRefSetAddress2D_v2(image, &plane, memory + 512, 256));
  DRIVER(cuLaunchKernel(sample, 1, 1, 1, kThreads, 1, 1, 0, nullptr, sampled, nullptr));
  show("the old function");
  SHOW_DRIVER(cuTexRefSetAddress2D(image, nullptr, memory, 512));

  printf("-- normalised coordinates\n");
  SHOW_DRIVER(cuTexRefSetAddressMode(image, 0, CU_TR_ADDRESS_MODE_WRAP));
  SHOW_DRIVER(cuTexRefSetFlags(image, CU_TRSF_NORMALIZED_COORDINATES));
  SHOW_DRIVER(cuTexRefSetFilterMode(image, CU_TR_FILTER_MODE_LINEAR));
  scale = 0.25f;
  DRIVER(cuLaunchKernel(sample, 1, 1, 1, kThreads, 1, 1, 0, nullptr, sampled, nullptr));
  show("wrapped");
  SHOW_DRIVER(cuTexRefSetFlags(image, 1u << 20));

  printf("-- an array\n");
  CUDA_ARRAY_DESCRIPTOR of = {8, 4, CU_AD_FORMAT_UNSIGNED_INT8, 1};
  CUarray bytes;
  DRIVER(cuArrayCreate(&bytes, &of));
  std::vector<unsigned char> pixels(32);
  for (size_t i = 0; i < pixels.size(); i++) pixels[i] = static_cast<unsigned char>(i * 8);
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = pixels.data();
  copy.srcPitch = copy.WidthInBytes = 8;
  copy.Height = 4;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = bytes;
  DRIVER(cuMemcpy2D(&copy));
  SHOW_DRIVER(cuTexRefSetArray(image, bytes, 0));
  SHOW_DRIVER(cuTexRefSetArray(image, bytes, CU_TRSA_OVERRIDE_FORMAT));
  DRIVER(cuTexRefGetArray(&array, image));
  printf("the same array: %d\n", array == bytes);
  SHOW_DRIVER(cuTexRefGetAddress(&address, image));
  describe(image);
  SHOW_DRIVER(cuTexRefSetFlags(image, 0));
  SHOW_DRIVER(cuTexRefSetFilterMode(image, CU_TR_FILTER_MODE_POINT));
  SHOW_DRIVER(cuTexRefSetAddressMode(image, 0, CU_TR_ADDRESS_MODE_CLAMP));
  scale = 1;
  DRIVER(cuLaunchKernel(sample, 1, 1, 1, kThreads, 1, 1, 0, nullptr, sampled, nullptr));
  show("bytes as fractions");

  printf("-- a mipmap\n");
  CUDA_ARRAY3D_DESCRIPTOR levels = {};
  levels.Width = levels.Height = 8;
  levels.Format = CU_AD_FORMAT_FLOAT;
  levels.NumChannels = 1;
  CUmipmappedArray pyramid;
  DRIVER(cuMipmappedArrayCreate(&pyramid, &levels, 3));
  for (unsigned i = 0; i < 3; i++) {
    CUarray one;
    DRIVER(cuMipmappedArrayGetLevel(&one, pyramid, i));
    std::vector<float> filling(64 >> (2 * i), static_cast<float>(10 * (i + 1)));
    copy.srcHost = filling.data();
    copy.srcPitch = copy.WidthInBytes = (8 >> i) * sizeof(float);
    copy.Height = 8 >> i;
    copy.dstArray = one;
    DRIVER(cuMemcpy2D(&copy));
  }
  SHOW_DRIVER(cuTexRefSetMipmappedArray(image, pyramid, CU_TRSA_OVERRIDE_FORMAT));
  SHOW_DRIVER(cuTexRefSetFormat(image, CU_AD_FORMAT_FLOAT, 1));
  SHOW_DRIVER(cuTexRefSetFlags(image, CU_TRSF_NORMALIZED_COORDINATES));
  SHOW_DRIVER(cuTexRefSetMipmapFilterMode(image, CU_TR_FILTER_MODE_LINEAR));
  SHOW_DRIVER(cuTexRefSetMipmapLevelClamp(image, 0.25f, 1.5f));
  SHOW_DRIVER(cuTexRefSetMipmapLevelBias(image, 0.5f));
  SHOW_DRIVER(cuTexRefSetMaxAnisotropy(image, 4));
  DRIVER(cuTexRefGetMipmappedArray(&mipmap, image));
  printf("the same mipmap: %d\n", mipmap == pyramid);
  SHOW_DRIVER(cuTexRefGetArray(&array, image));
  describe(image);
  scale = 0.125f;
  for (float wanted : {-1.0f, 0.0f, 0.5f, 0.75f, 2.0f}) {
    level = wanted;
    DRIVER(cuLaunchKernel(sample, 1, 1, 1, kThreads, 1, 1, 0, nullptr, sampled, nullptr));
    printf("level %g, ", wanted);
    show("sampled");
  }

  printf("-- what is refused\n");
  SHOW_DRIVER(cuTexRefSetAddressMode(image, 0, static_cast<CUaddress_mode>(9)));
  SHOW_DRIVER(cuTexRefSetAddressMode(image, 5, CU_TR_ADDRESS_MODE_WRAP));
  SHOW_DRIVER(cuTexRefSetFilterMode(image, static_cast<CUfilter_mode>(9)));
  SHOW_DRIVER(cuTexRefSetFormat(image, static_cast<CUarray_format>(0x77), 1));
  SHOW_DRIVER(cuTexRefSetFormat(image, CU_AD_FORMAT_FLOAT, 3));
  SHOW_DRIVER(cuTexRefSetArray(none, bytes, CU_TRSA_OVERRIDE_FORMAT));
  SHOW_DRIVER(cuTexRefGetFlags(nullptr, image));
  SHOW_DRIVER(cuTexRefGetFormat(nullptr, nullptr, image));

  printf("-- one of its own\n");
  CUtexref made;
  SHOW_DRIVER(cuTexRefCreate(&made));
  describe(made);
  SHOW_DRIVER(cuParamSetTexRef(fetch, CU_PARAM_TR_DEFAULT, line));
  SHOW_DRIVER(cuParamSetTexRef(fetch, 0, line));
  SHOW_DRIVER(cuTexRefDestroy(made));
  SHOW_DRIVER(cuTexRefDestroy(none));

  DRIVER(cuMipmappedArrayDestroy(pyramid));
  DRIVER(cuArrayDestroy(bytes));
  DRIVER(cuMemFree(memory));
  DRIVER(cuMemFree(out));
  DRIVER(cuModuleUnload(module));
  return 0;
}
