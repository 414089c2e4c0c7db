// Works until something fails, then says what: the server is taken away meanwhile.
#include "check.h"

__global__ void add(int *at) { atomicAdd(at, 1); }

int main() {
  int *counter;
  CHECK(cudaMalloc(&counter, sizeof *counter));
  CHECK(cudaMemset(counter, 0, sizeof *counter));
  for (long i = 0;; i++) {
    add<<<1, 32>>>(counter);
    cudaError_t result = cudaDeviceSynchronize();
    if (result != cudaSuccess) {
      printf("then: %s\n", cudaGetErrorName(result));
      SHOW(cudaDeviceSynchronize());
      SHOW(cudaMemset(counter, 0, sizeof *counter));
      return 0;
    }
    if (i == 0) {
      printf("working\n");
      fflush(stdout);
    }
  }
}
