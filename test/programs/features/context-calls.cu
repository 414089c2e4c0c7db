// Contexts beyond the first: their stack, their usage count, limits, events of whole contexts, and
// what they refuse. flags: -lcuda -Xcompiler=-Wno-deprecated-declarations
#include <cuda.h>

#include "../check.h"

#define TELL(...)                           \
  do {                                      \
    const CUresult told = __VA_ARGS__;      \
    const char *name = "?";                 \
    cuGetErrorName(told, &name);            \
    printf("%s: %s\n", #__VA_ARGS__, name); \
  } while (0)

__global__ void spin(int *out, int turns) {
  int sum = 0;
  for (int i = 0; i < turns; i++) sum += __popc(i ^ sum);
  if (threadIdx.x == 0) out[blockIdx.x] = turns + (sum == -1);
}

int main() {
  CUdevice device;
  CUcontext first, second, current, none = nullptr;
  TELL(cuInit(0));
  TELL(cuDeviceGet(&device, 0));
  TELL(cuDevicePrimaryCtxRetain(&first, device));
  TELL(cuCtxSetCurrent(first));

  // The usage count of a created context; the primary one has none.
  CUcontext attached;
  TELL(cuCtxAttach(&attached, 0));
  TELL(cuCtxCreate(&second, nullptr, 0, device));
  TELL(cuCtxAttach(&attached, 1));
  TELL(cuCtxAttach(&attached, 0));
  printf("the same context: %d\n", attached == second);
  TELL(cuCtxDetach(first));
  TELL(cuCtxDetach(second));
  TELL(cuCtxGetCurrent(&current));
  printf("still there: %d\n", current == second);
  TELL(cuCtxDetach(second));
  TELL(cuCtxGetCurrent(&current));
  printf("the first again: %d\n", current == first);
  TELL(cuCtxDetach(second));

  // Limits.
  size_t value = 0;
  TELL(cuCtxSetLimit(CU_LIMIT_STACK_SIZE, 4096));
  TELL(cuCtxGetLimit(&value, CU_LIMIT_STACK_SIZE));
  printf("at least what was asked for: %d\n", value >= 4096);
  TELL(cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, size_t{1} << 50));
  TELL(cuCtxGetLimit(&value, CU_LIMIT_PERSISTING_L2_CACHE_SIZE));
  printf("clamped: %d\n", value < size_t{1} << 50);
  TELL(cuCtxSetLimit(CU_LIMIT_PERSISTING_L2_CACHE_SIZE, 0));
  TELL(cuCtxSetLimit(static_cast<CUlimit>(77), 1));
  TELL(cuCtxGetLimit(&value, static_cast<CUlimit>(77)));
  TELL(cuCtxGetLimit(nullptr, CU_LIMIT_STACK_SIZE));

  // No context has a part of the device.
  CUexecAffinityParam affinity;
  int supported = 7;
  TELL(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, device));
  printf("affinity: %d\n", supported);
  TELL(cuDeviceGetExecAffinitySupport(&supported, static_cast<CUexecAffinityType>(9), device));
  TELL(cuDeviceGetExecAffinitySupport(&supported, CU_EXEC_AFFINITY_TYPE_SM_COUNT, 1000));
  TELL(cuCtxGetExecAffinity(&affinity, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
  CUctxCreateParams parameters = {};
  parameters.execAffinityParams = &affinity;
  parameters.numExecAffinityParams = 1;
  TELL(cuCtxCreate(&second, &parameters, 0, device));

  TELL(cuCtxEnablePeerAccess(first, 0));
  TELL(cuCtxEnablePeerAccess(none, 0));
  TELL(cuCtxDisablePeerAccess(first));

  // An event behind all of a context's streams, and one that all of them wait for.
  constexpr int streams = 3;
  cudaStream_t stream[streams];
  int *out, host[streams] = {};
  CHECK(cudaMalloc(&out, sizeof host));
  CHECK(cudaMemset(out, 0, sizeof host));
  CUevent event;
  TELL(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
  for (int i = 0; i < streams; i++) {
    // Behind the fill, which is the legacy stream's.
    CHECK(cudaStreamCreateWithFlags(&stream[i], cudaStreamDefault));
    spin<<<1, 32, 0, stream[i]>>>(out + i, 20000 + i);
  }
  TELL(cuCtxRecordEvent(first, event));
  TELL(cuEventSynchronize(event));
  cudaStream_t reader;
  CHECK(cudaStreamCreateWithFlags(&reader, cudaStreamNonBlocking));
  CHECK(cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, reader));
  CHECK(cudaStreamSynchronize(reader));
  printf("after the event: %d %d %d\n", host[0], host[1], host[2]);
  spin<<<1, 32, 0, stream[0]>>>(out, 40000);
  CHECK(cudaEventRecord(event, stream[0]));
  TELL(cuCtxWaitEvent(nullptr, event));
  CHECK(cudaMemcpyAsync(host, out, sizeof host, cudaMemcpyDeviceToHost, reader));
  CHECK(cudaStreamSynchronize(reader));
  printf("behind the wait: %d\n", host[0]);
  TELL(cuCtxRecordEvent(first, nullptr));
  TELL(cuCtxWaitEvent(first, nullptr));
  TELL(cuEventDestroy(event));

  for (cudaStream_t each : stream) CHECK(cudaStreamDestroy(each));
  CHECK(cudaStreamDestroy(reader));
  CHECK(cudaFree(out));
  TELL(cuDevicePrimaryCtxRelease(device));
  return 0;
}
