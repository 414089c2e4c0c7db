// Kernels that end themselves: exit is fine, a trap is an error that stays.
#include "../check.h"

__global__ void leave_early(int *out) {
  if (threadIdx.x % 2) asm volatile("exit;");
  __syncthreads();  // those who have left are not waited for
  out[threadIdx.x] = 1;
}
__global__ void trap(const int *in) {
  if (in[threadIdx.x]) __trap();
}

int main() {
  int *out, sum = 0;
  CHECK(cudaMallocManaged(&out, sizeof(int) * 64));
  for (int i = 0; i < 64; i++) out[i] = 0;
  leave_early<<<1, 64>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; i++) sum += out[i] * (i % 2 ? 1000 : 1);
  if (sum != 32) return fprintf(stderr, "%d\n", sum), 1;
  printf("32 of 64 threads stayed\n");
  trap<<<1, 64>>>(out);
  SHOW(cudaDeviceSynchronize());
  trap<<<1, 64>>>(out);
  SHOW(cudaGetLastError());
  return cudaDeviceSynchronize() == cudaErrorLaunchFailure ? 0 : 1;
}
