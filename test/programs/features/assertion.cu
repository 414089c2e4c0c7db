// An assertion that fails ends the launch, and the error stays.
#include <cassert>

#include "../check.h"

__global__ void check_below(const int *values, int limit) {
  assert(values[threadIdx.x] < limit && "values are small");
}

int main() {
  int *values;
  CHECK(cudaMalloc(&values, sizeof(int) * 32));
  CHECK(cudaMemset(values, 0, sizeof(int) * 32));
  check_below<<<1, 32>>>(values, 1);
  SHOW(cudaDeviceSynchronize());
  check_below<<<1, 32>>>(values, 0);
  SHOW(cudaDeviceSynchronize());
  SHOW(cudaFree(values));
  if (cudaGetLastError() != cudaErrorAssert) return fprintf(stderr, "the error went away\n"), 1;
  return 0;
}
