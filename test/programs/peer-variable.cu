// A kernel of one device is given the address of a variable of another's, which it has access to;
// copies between variables of both.
#include <cstdio>

#include "check.h"

__device__ int variable[256];

__global__ void fill(int from) { variable[threadIdx.x] = from + threadIdx.x; }
__global__ void add(int *into, const int *from) { into[threadIdx.x] += from[threadIdx.x]; }

static int third(const int *values) {
  int host[256];
  CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDefault));
  return host[3];
}

int main() {
  int *places[2], *plain;
  for (int device : {1, 0}) {
    CHECK(cudaSetDevice(device));
    fill<<<1, 256>>>(device * 1000);
    CHECK(cudaDeviceSynchronize());
    CHECK(cudaGetSymbolAddress(reinterpret_cast<void **>(&places[device]), variable));
    SHOW(cudaDeviceEnablePeerAccess(1 - device, 0));
  }
  CHECK(cudaMalloc(&plain, 1024));
  CHECK(cudaMemcpy(plain, places[1], 1024, cudaMemcpyDefault));
  printf("copied: %d\n", third(plain));
  add<<<1, 256>>>(plain, places[0]);
  printf("own: %d\n", third(plain));
  CHECK(cudaMemcpyPeer(places[0], 0, places[1], 1, 512));
  printf("from one to the other: %d\n", third(places[0]));
  add<<<1, 256>>>(plain, places[1]);
  SHOW(cudaGetLastError());
  SHOW(cudaDeviceSynchronize());
  printf("the other's: %d\n", third(plain));
  return 0;
}
