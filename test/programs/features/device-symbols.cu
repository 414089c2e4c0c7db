// Variables of a module: copies by symbol, their addresses and sizes, constants, pointers in them.
#include <cstdio>

#include "../check.h"

__device__ int counters[8] = {1, 2, 3};
__constant__ float weights[4] = {0.5f, 1.5f, 2.5f, 3.5f};
__device__ int *where;
__device__ const char *text = "written by the compiler";

__global__ void use(float *out) {
  int i = threadIdx.x;
  atomicAdd(&counters[i], 10);
  out[i] = weights[i];
  if (i == 0) *where = text[3];
}

int main() {
  float *out, weight[4];
  int *target, host[8], letter;
  void *address;
  size_t size;
  CHECK(cudaMalloc(&out, sizeof weight));
  CHECK(cudaMalloc(&target, sizeof(int)));
  CHECK(cudaMemcpyToSymbol(where, &target, sizeof target));
  float new_weights[2] = {7.5f, 8.5f};
  CHECK(cudaMemcpyToSymbol(weights, new_weights, sizeof new_weights, 2 * sizeof(float)));
  use<<<1, 4>>>(out);
  CHECK(cudaMemcpyFromSymbol(host, counters, sizeof host));
  CHECK(cudaMemcpy(weight, out, sizeof weight, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(&letter, target, sizeof letter, cudaMemcpyDeviceToHost));
  printf("counters %d %d %d %d %d\n", host[0], host[1], host[2], host[3], host[4]);
  printf("weights %.1f %.1f %.1f %.1f, letter %c\n", weight[0], weight[1], weight[2], weight[3],
         letter);
  CHECK(cudaGetSymbolAddress(&address, counters));
  CHECK(cudaGetSymbolSize(&size, counters));
  CHECK(cudaMemset(address, 0, size));
  CHECK(cudaMemcpyFromSymbol(host, counters, sizeof host));
  printf("size %zu, cleared %d\n", size, host[0] == 0 && host[7] == 0);
  SHOW(cudaMemcpyToSymbol(counters, host, sizeof host, 4));
  cudaGetLastError();
  CHECK(cudaFree(out));
  CHECK(cudaFree(target));
  return 0;
}
