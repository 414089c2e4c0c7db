// __device__ and __constant__ variables, function attributes, and a reset of the device.
#include "check.h"

__constant__ int factors[4] = {1, 2, 3, 4};
__device__ int table[4] = {10, 20, 30, 40};
__device__ long long total;

__global__ void multiply() {
  long long sum = 0;
  for (int i = 0; i < 4; i++) sum += factors[i] * table[i];
  total = sum;
}

static long long run() {
  multiply<<<1, 1>>>();
  long long value = 0;
  CHECK(cudaMemcpyFromSymbol(&value, total, sizeof value));
  return value;
}

int main() {
  printf("initial: %lld\n", run());
  const int changed[4] = {5, 6, 7, 8};
  CHECK(cudaMemcpyToSymbol(factors, changed, sizeof changed));
  printf("constants changed: %lld\n", run());
  int hundred = 100;
  CHECK(cudaMemcpyToSymbol(table, &hundred, sizeof hundred, sizeof(int)));
  printf("one variable changed: %lld\n", run());
  size_t size;
  void *address;
  CHECK(cudaGetSymbolSize(&size, table));
  CHECK(cudaGetSymbolAddress(&address, table));
  printf("size %zu, has an address: %s\n", size, address ? "yes" : "no");
  CHECK(cudaMemset(address, 0, size));
  printf("table cleared: %lld\n", run());

  cudaFuncAttributes attributes;
  CHECK(cudaFuncGetAttributes(&attributes, multiply));
  printf("threads per block at most %d\n", attributes.maxThreadsPerBlock);
  CHECK(cudaDeviceReset());
  printf("after a reset: %lld\n", run());
  return 0;
}
