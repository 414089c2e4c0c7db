// A fatbin with code and PTX for many architectures, of which a device can use few.
// flags: -gencode arch=compute_75,code=[compute_75,sm_75] -gencode
// arch=compute_80,code=[compute_80,sm_80] -gencode arch=compute_86,code=sm_86 -gencode
// arch=compute_90,code=[compute_90,sm_90]
#include <cstdio>

#include "../check.h"

// Large enough that its code would be noticed.
template <int N>
__device__ unsigned mix(unsigned value) {
  value = (value ^ (value >> (N % 13 + 3))) * (2654435761u + 2 * N);
  return mix<N - 1>(value);
}
template <>
__device__ unsigned mix<0>(unsigned value) {
  return value;
}

__constant__ unsigned start = 7;

__global__ void run(unsigned *out) { out[threadIdx.x] = mix<200>(start + threadIdx.x); }

int main() {
  unsigned *device, host[32], sum = 0;
  CHECK(cudaMalloc(&device, sizeof host));
  run<<<1, 32>>>(device);
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  for (unsigned value : host) sum = sum * 31 + value;
  printf("the device has its code: %08x\n", sum);
  CHECK(cudaFree(device));
  return 0;
}
