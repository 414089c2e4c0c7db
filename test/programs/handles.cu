// Handles that are none, were ended, or are of another kind (driver API).
#include <cstdio>
#include <cstring>

#include <cuda.h>

static const char *name(CUresult result) {
  const char *text = "?";
  cuGetErrorName(result, &text);
  return text;
}
#define SHOW(call) printf("%s: %s\n", #call, name(call))
#define CHECK(call)                                           \
  do {                                                        \
    CUresult check_result = (call);                           \
    if (check_result != CUDA_SUCCESS) {                       \
      fprintf(stderr, "%s: %s\n", #call, name(check_result)); \
      return 1;                                               \
    }                                                         \
  } while (0)

static const char *ptx =
    ".version 7.5\n.target sm_75\n.address_size 64\n"
    ".visible .entry empty(.param .u64 p) { ret; }\n";

int main() {
  CUdevice device;
  CUcontext context;
  SHOW(cuDeviceGet(&device, 0));
  CHECK(cuInit(0));
  SHOW(cuDeviceGet(&device, 99));
  CHECK(cuDeviceGet(&device, 0));
  CUdeviceptr memory;
  SHOW(cuMemAlloc(&memory, 16));
  CHECK(cuDevicePrimaryCtxRetain(&context, device));
  SHOW(cuCtxSetCurrent(reinterpret_cast<CUcontext>(0x1234)));
  CHECK(cuCtxSetCurrent(context));
  CHECK(cuMemAlloc(&memory, 16));

  CUstream stream;
  CUevent event;
  CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  CHECK(cuEventCreate(&event, 0));
  SHOW(cuStreamSynchronize(reinterpret_cast<CUstream>(0x123456)));
  SHOW(cuEventRecord(reinterpret_cast<CUevent>(0x123456), stream));
  SHOW(cuEventRecord(event, reinterpret_cast<CUstream>(0x123456)));
  SHOW(cuStreamSynchronize(reinterpret_cast<CUstream>(event)));
  SHOW(cuEventSynchronize(reinterpret_cast<CUevent>(stream)));
  CHECK(cuStreamDestroy(stream));
  SHOW(cuStreamSynchronize(stream));
  SHOW(cuStreamDestroy(stream));
  CHECK(cuEventDestroy(event));
  SHOW(cuEventQuery(event));

  CUmodule module;
  CUfunction function;
  SHOW(cuModuleLoadData(&module, "this is no program"));
  SHOW(cuModuleLoadData(&module, ".version 7.5\n.target sm_75\n.address_size 64\n.visible"));
  CHECK(cuModuleLoadData(&module, ptx));
  SHOW(cuModuleGetFunction(&function, module, "absent"));
  SHOW(cuModuleGetFunction(&function, reinterpret_cast<CUmodule>(0x123456), "empty"));
  CHECK(cuModuleGetFunction(&function, module, "empty"));
  void *parameters[] = {&memory};
  SHOW(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  SHOW(cuLaunchKernel(function, 0, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  SHOW(cuLaunchKernel(function, 1, 1, 1, 2048, 1, 1, 0, nullptr, parameters, nullptr));
  SHOW(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 1 << 30, nullptr, parameters, nullptr));
  SHOW(cuLaunchKernel(reinterpret_cast<CUfunction>(0x123456), 1, 1, 1, 1, 1, 1, 0, nullptr,
                      parameters, nullptr));
  SHOW(cuCtxSynchronize());
  CHECK(cuModuleUnload(module));
  SHOW(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, parameters, nullptr));
  SHOW(cuModuleUnload(module));
  SHOW(cuMemFree(memory + 4));
  SHOW(cuMemFree(memory));
  SHOW(cuMemFree(memory));
  SHOW(cuCtxSynchronize());
  CHECK(cuDevicePrimaryCtxRelease(device));
  return 0;
}
