// Host pointers where device pointers belong, in copies and in a kernel.
#include "check.h"

__global__ void store(int *at) { *at = 1; }

int main() {
  static int host[256];
  static int other[256];
  int *device;
  CHECK(cudaMalloc(&device, sizeof host));
  SHOW(cudaMemcpy(host, other, sizeof host, cudaMemcpyHostToDevice));
  SHOW(cudaMemcpy(other, host, sizeof host, cudaMemcpyDeviceToHost));
  SHOW(cudaMemset(host, 0, sizeof host));
  SHOW(cudaFree(host));
  SHOW(cudaMemcpy(device + 200, host, sizeof host, cudaMemcpyHostToDevice));
  SHOW(cudaMemcpy(device, host, sizeof host, cudaMemcpyHostToDevice));
  cudaGetLastError();
  store<<<1, 1>>>(host);
  SHOW(cudaDeviceSynchronize());
  SHOW(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  return 0;
}
