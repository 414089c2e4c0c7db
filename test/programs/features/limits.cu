// What a device has: properties, memory that runs out where it says, limits of a context.
#include <cstdio>

#include "../check.h"

int main() {
  setenv("SOFTWARE_DEVICE_MEMORY", "256M", 0);
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  size_t free_before, free_after, total;
  CHECK(cudaMemGetInfo(&free_before, &total));
  printf("the total is the device's: %d\n", total == device.totalGlobalMem);
  void *half, *rest;
  CHECK(cudaMalloc(&half, free_before / 2));
  CHECK(cudaMemGetInfo(&free_after, &total));
  printf("half is gone: %d\n", free_before - free_after >= free_before / 2 &&
                                   free_before - free_after < free_before / 2 + (8 << 20));
  SHOW(cudaMalloc(&rest, free_after + (4 << 20)));
  cudaGetLastError();
  SHOW(cudaMalloc(&rest, static_cast<size_t>(-1)));
  cudaGetLastError();
  CHECK(cudaFree(half));
  CHECK(cudaMemGetInfo(&free_after, &total));
  printf("all is back: %d\n", free_after == free_before);
  size_t value;
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  CHECK(cudaDeviceGetLimit(&value, cudaLimitStackSize));
  printf("stack at least what was asked: %d\n", value >= 4096);
  CHECK(cudaDeviceGetLimit(&value, cudaLimitMallocHeapSize));
  printf("there is a heap: %d\n", value > 0);
  SHOW(cudaDeviceSetLimit(static_cast<cudaLimit>(77), 1));
  SHOW(cudaSetDevice(1000));
  cudaGetLastError();
  return 0;
}
