// Occupancy: how many blocks fit, which size is best, and what shared memory and registers do to
// it.
#include <cstdio>

#include "../check.h"

__global__ void small(int *out) { out[threadIdx.x] = threadIdx.x; }
__global__ void __launch_bounds__(128) bounded(int *out) { out[threadIdx.x] = threadIdx.x; }
__global__ void shares(int *out) {
  extern __shared__ int shared[];
  shared[threadIdx.x] = threadIdx.x;
  __syncthreads();
  out[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

int main() {
  cudaDeviceProp device;
  CHECK(cudaGetDeviceProperties(&device, 0));
  int few, many, grid, block;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&few, small, 1024, 0));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&many, small, 64, 0));
  printf("smaller blocks, more of them: %d\n", many > few && few >= 1);
  printf("threads are within the limit: %d\n", many * 64 <= device.maxThreadsPerMultiProcessor);
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, small, 0, 0));
  printf("the best block is whole warps: %d, and fills the device: %d\n", block % 32 == 0,
         grid >= device.multiProcessorCount);
  CHECK(cudaOccupancyMaxPotentialBlockSize(&grid, &block, bounded, 0, 0));
  printf("launch bounds are kept: %d\n", block <= 128);
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&many, shares, 64, 0));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&few, shares, 64, 40 << 10));
  printf("shared memory costs blocks: %d\n", few < many);
  size_t bytes;
  CHECK(cudaOccupancyAvailableDynamicSMemPerBlock(&bytes, shares, 2, 64));
  int fit;
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&fit, shares, 64, bytes));
  printf("two blocks fit with what is left for two: %d\n", fit >= 2);

  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, bounded));
  printf("at most %d threads in a block\n", attributes.maxThreadsPerBlock);
  int *out;
  CHECK(cudaMalloc(&out, 4096));
  int most = static_cast<int>(device.sharedMemPerBlockOptin);
  shares<<<1, 64, most>>>(out);
  printf("without asking: %s\n", cudaGetErrorName(cudaGetLastError()));
  CHECK(cudaFuncSetAttribute(shares, cudaFuncAttributeMaxDynamicSharedMemorySize, most));
  shares<<<1, 64, most>>>(out);
  printf("after asking: %s\n", cudaGetErrorName(cudaGetLastError()));
  CHECK(cudaDeviceSynchronize());
  SHOW(cudaFuncSetAttribute(shares, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 30));
  cudaGetLastError();
  CHECK(cudaFree(out));
  return 0;
}
