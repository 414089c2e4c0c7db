// Recursion without end meets the stack's limit: an error that stays, and no crash.
#include "../check.h"

__device__ __noinline__ int endless(volatile int *at, int n) {
  int room[8];
  for (int i = 0; i < 8; i++) room[i] = at[i & 1] + n;
  return endless(at, n + 1) + room[n & 7];
}

__global__ void start(int *out) { *out = endless(out, 0); }

int main() {
  int *out;
  size_t limit = 0;
  CHECK(cudaMalloc(&out, 64));
  CHECK(cudaMemset(out, 0, 64));
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 4096));
  CHECK(cudaDeviceGetLimit(&limit, cudaLimitStackSize));
  start<<<1, 32>>>(out);
  CHECK(cudaGetLastError());
  cudaError_t error = cudaDeviceSynchronize();
  printf("a stack of %zu bytes: %s\n", limit, cudaGetErrorName(error));
  if (error == cudaSuccess || cudaFree(out) != error)
    return fprintf(stderr, "no lasting error\n"), 1;
  return 0;
}
