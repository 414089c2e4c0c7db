// Relocatable device code: functions, variables and pointers to functions, linked on the device.
// flags: -rdc=true
#include <cstdio>

#include "../check.h"

extern __device__ int scale(int value);
extern __device__ int offsets[4];
extern __constant__ int factor;
typedef int (*Operation)(int);
extern __device__ Operation operations[2];

__global__ void run(int *out) {
  int i = threadIdx.x;
  out[i] = operations[i % 2](scale(i)) + offsets[i % 4];
}

__device__ int offsets[4] = {100, 200, 300, 400};
__constant__ int factor = 3;
__device__ int scale(int value) { return value * factor; }
__device__ int plus_one(int value) { return value + 1; }
__device__ int negative(int value) { return -value; }
__device__ Operation operations[2] = {plus_one, negative};

int main() {
  int *device, host[32];
  CHECK(cudaMalloc(&device, sizeof host));
  int new_factor = 5;
  CHECK(cudaMemcpyToSymbol(factor, &new_factor, sizeof new_factor));
  run<<<1, 32>>>(device);
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 32; i++) {
    int scaled = i * new_factor, expected = (i % 2 ? -scaled : scaled + 1) + (i % 4 + 1) * 100;
    if (host[i] != expected) {
      fprintf(stderr, "element %d is %d, expected %d\n", i, host[i], expected);
      return 1;
    }
  }
  printf("32 lanes called linked functions\n");
  CHECK(cudaFree(device));
  return 0;
}
