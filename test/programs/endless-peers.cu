// Copies between two devices, whose streams wait for one another, until something fails, then says
// what: one server is taken away meanwhile, or one device of it. Where they reach each other,
// kernels change the memory of the other.
#include "check.h"

__global__ void add(int *data, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) data[i]++;
}

constexpr int count = 1 << 18;

int main() {
  int *memory[2];
  cudaStream_t streams[2];
  cudaEvent_t done[2];
  for (int d = 0; d < 2; d++) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaMalloc(&memory[d], count * sizeof(int)));
    CHECK(cudaMemset(memory[d], 0, count * sizeof(int)));
    CHECK(cudaStreamCreateWithFlags(&streams[d], cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&done[d], cudaEventDisableTiming));
  }
  int reaches = 0;
  for (int d = 0; d < 2; d++) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaDeviceCanAccessPeer(&reaches, d, 1 - d));
    if (reaches) CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
  }
  cudaError_t result = cudaSuccess;
  for (long i = 0; !result; i++) {
    int from = i % 2, to = 1 - from;
    cudaSetDevice(from);
    add<<<count / 256, 256, 0, streams[from]>>>(memory[from], count);
    if (reaches) add<<<count / 256, 256, 0, streams[from]>>>(memory[to], count);
    result =
        cudaMemcpyPeerAsync(memory[to], to, memory[from], from, count * sizeof(int), streams[from]);
    if (!result) result = cudaEventRecord(done[from], streams[from]);
    cudaSetDevice(to);
    if (!result) result = cudaStreamWaitEvent(streams[to], done[from], 0);
    if (!result && i % 4 == 3) result = cudaStreamSynchronize(streams[to]);
    if (i == 20) {
      printf("working\n");
      fflush(stdout);
    }
  }
  printf("then: %s\n", cudaGetErrorName(result));
  for (int d = 0; d < 2; d++) {
    cudaSetDevice(d);
    SHOW(cudaDeviceSynchronize());
  }
  return 0;
}
