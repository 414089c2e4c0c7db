// A kernel writes far outside of its memory: the error comes asynchronously and stays.
#include "check.h"

__global__ void store(int *at, size_t index) { at[index] = 1; }

int main() {
  int *memory;
  CHECK(cudaMalloc(&memory, 1024));
  store<<<1, 1>>>(memory, size_t(1) << 34);
  SHOW(cudaDeviceSynchronize());
  SHOW(cudaDeviceSynchronize());
  SHOW(cudaMemset(memory, 0, 1024));
  void *more;
  SHOW(cudaMalloc(&more, 16));
  SHOW(cudaFree(memory));
  SHOW(cudaGetLastError());
  return 0;
}
