// Linking at run time: two texts of PTX become one module; what is missing is named.
// flags: -lcuda
#include <cuda.h>
#include <cstdio>
#include <cstring>

#include "../check.h"

static const char kernel_text[] = R"(
.version 7.0
.target sm_70
.address_size 64
.extern .func (.param .b32 result) compute(.param .b32 value);
.visible .entry run(.param .u64 out)
{
  .reg .b32 %r<4>;
  .reg .b64 %rd<4>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, %tid.x;
  { .param .b32 p; .param .b32 q;
    st.param.b32 [p], %r1;
    call (q), compute, (p);
    ld.param.b32 %r2, [q]; }
  mul.wide.u32 %rd3, %r1, 4;
  add.s64 %rd3, %rd2, %rd3;
  st.global.u32 [%rd3], %r2;
  ret;
}
)";

static const char function_text[] = R"(
.version 7.0
.target sm_70
.address_size 64
.visible .func (.param .b32 result) compute(.param .b32 value)
{
  .reg .b32 %r<3>;
  ld.param.u32 %r1, [value];
  mad.lo.u32 %r2, %r1, %r1, 7;
  st.param.b32 [result], %r2;
  ret;
}
)";

static CUresult link(bool whole, CUmodule *module, char *errors, size_t room) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {errors, reinterpret_cast<void *>(room)};
  CUlinkState state;
  void *image;
  size_t size;
  CUresult result = cuLinkCreate(2, options, values, &state);
  if (result != CUDA_SUCCESS) return result;
  result = cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char *>(kernel_text),
                         sizeof kernel_text, "kernel", 0, nullptr, nullptr);
  if (result == CUDA_SUCCESS && whole)
    result = cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char *>(function_text),
                           sizeof function_text, "function", 0, nullptr, nullptr);
  if (result == CUDA_SUCCESS) result = cuLinkComplete(state, &image, &size);
  if (result == CUDA_SUCCESS) result = cuModuleLoadData(module, image);
  cuLinkDestroy(state);
  return result;
}

int main() {
  CHECK(cudaFree(nullptr));
  CUmodule module;
  CUfunction function;
  char errors[1024] = "";
  if (link(true, &module, errors, sizeof errors) || cuModuleGetFunction(&function, module, "run")) {
    fprintf(stderr, "linking failed: %s\n", errors);
    return 1;
  }
  unsigned *device, host[32];
  CHECK(cudaMalloc(&device, sizeof host));
  void *parameters[] = {&device};
  if (cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr)) return 1;
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  for (unsigned i = 0; i < 32; i++)
    if (host[i] != i * i + 7) {
      fprintf(stderr, "element %u is %u\n", i, host[i]);
      return 1;
    }
  printf("two texts became one module\n");
  CUresult missing = link(false, &module, errors, sizeof errors);
  printf("without the second: refused %d, named %d\n", missing != CUDA_SUCCESS,
         strstr(errors, "compute") != nullptr);
  CHECK(cudaFree(device));
  return 0;
}
