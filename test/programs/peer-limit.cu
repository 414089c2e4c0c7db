// What devices lend each other counts where it is: each may have as much as its session, whoever
// reaches it. Takes two devices with 64 MiB each.
#include <cstdio>

#include "check.h"

constexpr size_t large = 56 << 20, count = large / sizeof(int);

__global__ void fill(int *into, int with) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    into[i] = with;
}

__global__ void check(const int *data, int with, int *wrong) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x)
    if (data[i] != with) atomicAdd(wrong, 1);
}

int main() {
  int *memory[2], *wrong[2], *more;
  for (int d : {0, 1}) {
    CHECK(cudaSetDevice(d));
    CHECK(cudaDeviceEnablePeerAccess(1 - d, 0));
    CHECK(cudaMalloc(&wrong[d], sizeof(int)));
    CHECK(cudaMemset(wrong[d], 0, sizeof(int)));
  }
  // All that there is, again and again: what one has freed, the other has to let go.
  for (int round = 0; round < 12; round++) {
    for (int d : {0, 1}) {
      CHECK(cudaSetDevice(d));
      CHECK(cudaMalloc(&memory[d], large));
    }
    if (round == 3) {
      for (int d : {0, 1}) {
        size_t free, total;
        CHECK(cudaSetDevice(d));
        CHECK(cudaMemGetInfo(&free, &total));
        printf("device %d: %zu of %zu MiB are free\n", d, free >> 20, total >> 20);
        SHOW(cudaMalloc(&more, 8 << 20));
      }
      cudaGetLastError();
    }
    for (int d : {0, 1}) {
      CHECK(cudaSetDevice(d));
      fill<<<32, 256>>>(memory[1 - d], round);
      CHECK(cudaDeviceSynchronize());
    }
    for (int d : {0, 1}) {
      CHECK(cudaSetDevice(d));
      check<<<32, 256>>>(memory[d], round, wrong[d]);
    }
    for (int d : {0, 1}) CHECK(cudaFree(memory[d]));
  }
  for (int d : {0, 1}) {
    int found;
    CHECK(cudaSetDevice(d));
    CHECK(cudaMemcpy(&found, wrong[d], sizeof found, cudaMemcpyDeviceToHost));
    printf("device %d: %d wrong\n", d, found);
  }
  return 0;
}
