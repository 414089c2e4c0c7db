// A context that ends while kernels of it run: they read its memory to their end, and what they
// print is shown. flags: -lcuda
#include <cuda.h>
#include <cstdio>

#include "../check.h"
#include "../check_driver.h"

constexpr int rounds = 1000000;

// Long enough for the host to come to the end of the context.
__global__ void count_sevens(const volatile unsigned char *byte) {
  unsigned count = 0;
  for (int i = 0; i < rounds; i++) count += *byte == 7;
  printf("%s\n", count == rounds ? "read to the end" : "WRONG");
}

__device__ unsigned char variable[143];

// One kernel of each kind of memory, on a stream that nobody waits for.
void launch_all() {
  cudaStream_t stream;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  unsigned char *memory, *managed, *pinned, *of_variable;
  const size_t size = (2 << 20) + 143;
  CHECK(cudaMalloc(&memory, size));
  CHECK(cudaMemset(memory, 7, size));
  CHECK(cudaMallocManaged(&managed, size));
  managed[size - 1] = 7;
  CHECK(cudaMallocHost(&pinned, size));
  pinned[size - 1] = 7;
  CHECK(cudaGetSymbolAddress(reinterpret_cast<void **>(&of_variable), variable));
  CHECK(cudaMemset(of_variable, 7, sizeof variable));
  CHECK(cudaDeviceSynchronize());
  for (const unsigned char *at : {memory + size - 1, managed + size - 1, pinned + size - 1,
                                  of_variable + sizeof variable - 1})
    count_sevens<<<1, 1, 0, stream>>>(at);
  CHECK(cudaGetLastError());
}

// Only its own work is waited for: that of another context may come to an end later.
void beside_waiting_work() {
  CUdeviceptr values;
  CUstream waits, goes_on;
  DRIVER(cuMemAlloc(&values, 8));
  DRIVER(cuMemsetD32(values, 0, 2));
  // Neither the host nor the streams below wait for a fill by themselves.
  DRIVER(cuCtxSynchronize());
  DRIVER(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));
  DRIVER(cuStreamCreate(&goes_on, CU_STREAM_NON_BLOCKING));
  DRIVER(cuStreamWaitValue32(waits, values, 1, CU_STREAM_WAIT_VALUE_GEQ));
  CUcontext context;
  CUstream own;
  DRIVER(cuCtxCreate(&context, nullptr, 0, 0));
  DRIVER(cuStreamCreate(&own, CU_STREAM_NON_BLOCKING));
  DRIVER(cuMemsetD32Async(values + 4, 143, 1, own));
  DRIVER(cuCtxDestroy(context));
  unsigned value = 0;
  DRIVER(cuMemcpyDtoHAsync(&value, values + 4, 4, goes_on));
  DRIVER(cuStreamSynchronize(goes_on));
  printf("destroyed beside work that waits: %u\n", value);
  DRIVER(cuStreamWriteValue32(goes_on, values, 1, 0));
  DRIVER(cuStreamSynchronize(waits));
}

int main() {
  launch_all();
  CHECK(cudaDeviceReset());
  printf("the device is reset\n");
  launch_all();
  DRIVER(cuDevicePrimaryCtxReset(0));
  printf("the primary context is reset\n");
  CUcontext context;
  DRIVER(cuCtxCreate(&context, nullptr, 0, 0));
  launch_all();
  DRIVER(cuCtxDestroy(context));
  printf("the context is destroyed\n");
  // A new one is none the worse.
  launch_all();
  CHECK(cudaDeviceSynchronize());
  beside_waiting_work();
  return 0;
}
