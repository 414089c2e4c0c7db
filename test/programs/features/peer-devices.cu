// Two devices: copies between them, and kernels of one in the memory of the other. Where there is
// one device only, it does the work of both.
#include <cstdio>

#include "../check.h"

__global__ void add(int *into, const int *from, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) into[i] += from[i];
}

int main() {
  setenv("SOFTWARE_DEVICE_GPUS", "2", 0);
  int devices, can = 1;
  CHECK(cudaGetDeviceCount(&devices));
  int other = devices > 1 ? 1 : 0;
  constexpr int count = 100000;
  constexpr size_t bytes = count * sizeof(int);
  int *host, *here, *there;
  CHECK(cudaMallocHost(&host, bytes));
  for (int i = 0; i < count; i++) host[i] = i;
  CHECK(cudaSetDevice(0));
  CHECK(cudaMalloc(&here, bytes));
  CHECK(cudaMemcpy(here, host, bytes, cudaMemcpyHostToDevice));
  CHECK(cudaSetDevice(other));
  CHECK(cudaMalloc(&there, bytes));
  CHECK(cudaMemcpyPeer(there, other, here, 0, bytes));
  CHECK(cudaSetDevice(0));
  if (other) {
    CHECK(cudaDeviceCanAccessPeer(&can, 0, other));
    CHECK(cudaDeviceEnablePeerAccess(other, 0));
    cudaError_t twice = cudaDeviceEnablePeerAccess(other, 0);
    if (twice != cudaErrorPeerAccessAlreadyEnabled) return 1;
    cudaGetLastError();
  }
  add<<<(count + 255) / 256, 256>>>(here, there, count);
  CHECK(cudaDeviceSynchronize());
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  CHECK(cudaMemcpyPeerAsync(there, other, here, 0, bytes, stream));
  CHECK(cudaStreamSynchronize(stream));
  CHECK(cudaMemcpy(host, there, bytes, cudaMemcpyDefault));
  for (int i = 0; i < count; i++)
    if (host[i] != 2 * i) {
      fprintf(stderr, "element %d is %d\n", i, host[i]);
      return 1;
    }
  if (other) CHECK(cudaDeviceDisablePeerAccess(other));
  printf("the memory of one device was used by another\n");
  SHOW(cudaDeviceEnablePeerAccess(0, 0));
  cudaGetLastError();
  CHECK(cudaFree(here));
  CHECK(cudaFree(there));
  return 0;
}
