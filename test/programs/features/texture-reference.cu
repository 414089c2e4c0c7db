// Texture and surface references of a PTX module, bound through the driver API: deprecated, and
// still in programs.
// flags: -lcuda -Xcompiler=-Wno-deprecated-declarations
#include <cuda.h>

#include <vector>

#include "../check.h"

namespace {

const char *const kModule = R"(
.version 6.0
.target sm_52
.address_size 64
.global .texref image;
.global .surfref result;
// result(x, y) = image(y, x), one float each
.visible .entry transpose()
{
  .reg .b32 %r<8>;
  .reg .f32 %f<8>;
  mov.u32 %r0, %tid.x;
  mov.u32 %r1, %ctaid.x;
  cvt.rn.f32.u32 %f0, %r0;
  cvt.rn.f32.u32 %f1, %r1;
  tex.2d.v4.f32.f32 {%f2, %f3, %f4, %f5}, [image, {%f1, %f0}];
  shl.b32 %r2, %r0, 2;
  mov.b32 %r3, %f2;
  sust.b.2d.b32.trap [result, {%r2, %r1}], {%r3};
  ret;
}
)";

#define DRIVER(call)                                          \
  do {                                                        \
    CUresult driver_result = (call);                          \
    if (driver_result != CUDA_SUCCESS) {                      \
      fprintf(stderr, "%s: %d\n", #call, (int)driver_result); \
      exit(1);                                                \
    }                                                         \
  } while (0)

}  // namespace

int main() {
  constexpr int kSize = 16;
  CHECK(cudaFree(nullptr));  // makes the context
  CUmodule module;
  CUfunction function;
  CUtexref image;
  CUsurfref result;
  DRIVER(cuModuleLoadData(&module, kModule));
  DRIVER(cuModuleGetFunction(&function, module, "transpose"));
  DRIVER(cuModuleGetTexRef(&image, module, "image"));
  DRIVER(cuModuleGetSurfRef(&result, module, "result"));
  CUarray arrays[2];
  CUDA_ARRAY3D_DESCRIPTOR of = {};
  of.Width = of.Height = kSize;
  of.Format = CU_AD_FORMAT_FLOAT;
  of.NumChannels = 1;
  of.Flags = CUDA_ARRAY3D_SURFACE_LDST;
  std::vector<float> in(kSize * kSize), out(in.size());
  for (size_t i = 0; i < in.size(); i++) in[i] = static_cast<float>(i);
  for (CUarray &array : arrays) DRIVER(cuArray3DCreate(&array, &of));
  CUDA_MEMCPY2D copy = {};
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = in.data();
  copy.srcPitch = copy.WidthInBytes = kSize * 4;
  copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.dstArray = arrays[0];
  copy.Height = kSize;
  DRIVER(cuMemcpy2D(&copy));
  DRIVER(cuTexRefSetArray(image, arrays[0], CU_TRSA_OVERRIDE_FORMAT));
  DRIVER(cuTexRefSetAddressMode(image, 0, CU_TR_ADDRESS_MODE_CLAMP));
  DRIVER(cuTexRefSetAddressMode(image, 1, CU_TR_ADDRESS_MODE_CLAMP));
  DRIVER(cuTexRefSetFilterMode(image, CU_TR_FILTER_MODE_POINT));
  DRIVER(cuSurfRefSetArray(result, arrays[1], 0));
  CUarray bound = nullptr;
  DRIVER(cuSurfRefGetArray(&bound, result));
  printf("the surface is the second array: %d\n", bound == arrays[1]);
  DRIVER(cuLaunchKernel(function, kSize, 1, 1, kSize, 1, 1, 0, nullptr, nullptr, nullptr));
  copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  copy.srcArray = arrays[1];
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = out.data();
  copy.dstPitch = copy.WidthInBytes;
  DRIVER(cuMemcpy2D(&copy));
  for (int y = 0; y < kSize; y++)
    for (int x = 0; x < kSize; x++)
      if (out[y * kSize + x] != in[x * kSize + y]) {
        fprintf(stderr, "(%d, %d): %g\n", x, y, out[y * kSize + x]);
        return 1;
      }
  printf("transposed through references\n");
  printf("a name that is no texture: %s\n",
         cuModuleGetTexRef(&image, module, "result") == CUDA_ERROR_NOT_FOUND ? "not found" : "?");
  DRIVER(cuArrayDestroy(arrays[0]));
  DRIVER(cuArrayDestroy(arrays[1]));
  DRIVER(cuModuleUnload(module));
  return 0;
}
