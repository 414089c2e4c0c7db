// Launches that cannot be: each its error, and none harms the context.
#include "../check.h"

__global__ void plain(int *out) { atomicAdd(out, 1); }
__global__ void __launch_bounds__(64) bounded(int *out) { atomicAdd(out, 1); }
__global__ void shared(int *out) {
  extern __shared__ int room[];
  room[threadIdx.x] = 1;
  atomicAdd(out, room[threadIdx.x]);
}

#define LAUNCH(kernel, ...)                                                             \
  do {                                                                                  \
    kernel<<<__VA_ARGS__>>>(out);                                                       \
    printf("%s %s: %s\n", #kernel, #__VA_ARGS__, cudaGetErrorName(cudaGetLastError())); \
  } while (0)

int main() {
  int *out;
  CHECK(cudaMallocManaged(&out, sizeof(int)));
  *out = 0;
  LAUNCH(plain, 1, 1025);
  LAUNCH(plain, 1, 0);
  LAUNCH(plain, 0, 1);
  LAUNCH(plain, dim3(1, 65536), 1);
  LAUNCH(plain, 1, dim3(1, 1, 65));
  LAUNCH(bounded, 1, 64);
  LAUNCH(shared, 1, 32, 48 << 10);
  LAUNCH(shared, 1, 32, 49 << 10);
  CHECK(cudaFuncSetAttribute(shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10));
  LAUNCH(shared, 1, 32, 64 << 10);
  LAUNCH(shared, 1, 32, 65 << 10);
  CHECK(cudaDeviceSynchronize());
  if (*out != 64 + 32 + 32) return fprintf(stderr, "%d threads ran\n", *out), 1;
  return 0;
}
