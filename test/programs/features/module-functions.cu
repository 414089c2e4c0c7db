// Modules and libraries from text: their kernels one by one, parameters and attributes, and what
// the compiler says of text that is none. flags: -lcuda
#include <cuda.h>
#include <cstring>

#include "../check.h"

#define TELL(...)                           \
  do {                                      \
    const CUresult told = __VA_ARGS__;      \
    const char *name = "?";                 \
    cuGetErrorName(told, &name);            \
    printf("%s: %s\n", #__VA_ARGS__, name); \
  } while (0)

static const char text[] = R"(
.version 7.0
.target sm_70
.address_size 64
.global .u32 number = 7;
.visible .entry first(.param .u64 out, .param .u32 value)
{
  .reg .b32 %r<3>;
  .reg .b64 %rd<3>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  ld.param.u32 %r1, [value];
  st.global.u32 [%rd2], %r1;
  ret;
}
.visible .entry second()
.maxntid 64, 1, 1
{
  .shared .align 4 .b8 room[256];
  ret;
}
)";

static const char broken[] = R"(
.version 7.0
.target sm_70
.address_size 64
.global .u32 unfinished[
.visible .entry first()
{
  ret;
)";

int main() {
  CHECK(cudaFree(nullptr));
  CUmodule module;
  CUfunction functions[4] = {}, function;
  unsigned count = 0;
  TELL(cuModuleLoadData(&module, text));
  TELL(cuModuleGetFunctionCount(&count, module));
  printf("%u functions\n", count);
  TELL(cuModuleEnumerateFunctions(functions, 4, module));
  for (unsigned i = 0; i < count; i++) {
    const char *name = "";
    size_t offset = 0, size = 0;
    int threads = 0, shared = 0;
    cuFuncGetName(&name, functions[i]);
    cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, functions[i]);
    cuFuncGetAttribute(&shared, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, functions[i]);
    printf("%s: %d threads, %d bytes shared", name, threads, shared);
    for (size_t p = 0; cuFuncGetParamInfo(functions[i], p, &offset, &size) == CUDA_SUCCESS; p++)
      printf(", %zu at %zu", size, offset);
    printf("\n");
  }
  TELL(cuModuleGetFunction(&function, module, "second"));
  printf("the same: %d\n", function == functions[1]);
  TELL(cuModuleEnumerateFunctions(functions, 0, module));
  TELL(cuModuleEnumerateFunctions(nullptr, 1, module));
  TELL(cuLaunchKernel(function, 1, 1, 1, 64, 1, 1, 0, nullptr, nullptr, nullptr));
  TELL(cuLaunchKernel(function, 1, 1, 1, 65, 1, 1, 0, nullptr, nullptr, nullptr));
  CUdeviceptr address;
  size_t bytes = 0;
  unsigned number = 0;
  TELL(cuModuleGetGlobal(&address, &bytes, module, "number"));
  TELL(cuMemcpyDtoH(&number, address, sizeof number));
  printf("%zu bytes: %u\n", bytes, number);
  TELL(cuModuleGetGlobal(&address, &bytes, module, "nobody"));

  CUlibrary library, owner = nullptr;
  CUkernel kernels[2] = {};
  TELL(cuLibraryLoadData(&library, text, nullptr, nullptr, 0, nullptr, nullptr, 0));
  TELL(cuLibraryGetKernelCount(&count, library));
  TELL(cuLibraryEnumerateKernels(kernels, 2, library));
  TELL(cuKernelGetLibrary(&owner, kernels[1]));
  printf("%u kernels, of this library: %d\n", count, owner == library);
  TELL(cuLibraryUnload(library));
  TELL(cuModuleUnload(module));
  TELL(cuModuleEnumerateFunctions(functions, 4, module));

  char errors[400] = "", info[100] = "untouched";
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                            CU_JIT_MAX_REGISTERS};
  void *values[] = {errors, (void *)sizeof errors, info, (void *)sizeof info, (void *)32};
  TELL(cuModuleLoadDataEx(&module, text, 5, options, values));
  printf("errors \"%s\" %zu, info \"%s\" %zu\n", errors, (size_t)values[1], info,
         (size_t)values[3]);
  values[1] = (void *)sizeof errors;
  values[3] = (void *)sizeof info;
  const CUresult refused = cuModuleLoadDataEx(&module, broken, 5, options, values);
  printf("refused: %d\n%s\n", refused, errors);
  printf("its length: %d\n", (size_t)values[1] == strlen(errors));
  return 0;
}
