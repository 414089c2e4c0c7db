// One good kernel and one with an instruction that no device here knows (driver API): the module
// loads, the good kernel runs, the other is refused without harm to the context.
#include <cstdio>

#include <cuda.h>

static const char *name(CUresult result) {
  const char *text = "?";
  cuGetErrorName(result, &text);
  return text;
}
#define CHECK(call)                                           \
  do {                                                        \
    CUresult check_result = (call);                           \
    if (check_result != CUDA_SUCCESS) {                       \
      fprintf(stderr, "%s: %s\n", #call, name(check_result)); \
      return 1;                                               \
    }                                                         \
  } while (0)

static const char *ptx = R"(
.version 8.6
.target sm_100a
.address_size 64

.visible .entry good(.param .u64 out)
{
  .reg .b64 %rd<3>;
  .reg .b32 %r<2>;
  ld.param.u64 %rd1, [out];
  cvta.to.global.u64 %rd2, %rd1;
  mov.u32 %r1, 42;
  st.global.u32 [%rd2], %r1;
  ret;
}

.visible .entry refused(.param .u64 out)
{
  tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
  ret;
}
)";

int main() {
  CUdevice device;
  CUcontext context;
  CHECK(cuInit(0));
  CHECK(cuDeviceGet(&device, 0));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  CHECK(cuCtxSetCurrent(context));
  CUmodule module;
  CUfunction good, refused;
  CHECK(cuModuleLoadData(&module, ptx));
  CHECK(cuModuleGetFunction(&good, module, "good"));
  CHECK(cuModuleGetFunction(&refused, module, "refused"));
  CUdeviceptr memory;
  CHECK(cuMemAlloc(&memory, 4));
  CHECK(cuMemsetD32(memory, 0, 1));
  void *parameters[] = {&memory};
  // Natively the launch itself says so, remotely the next synchronisation.
  CUresult launched = cuLaunchKernel(refused, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr);
  CUresult synchronised = cuCtxSynchronize();
  printf("refused: %s\n", name(launched ? launched : synchronised));
  CHECK(cuLaunchKernel(good, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  int value = 0;
  CHECK(cuMemcpyDtoH(&value, memory, 4));
  printf("good: %d\n", value);
  return 0;
}
