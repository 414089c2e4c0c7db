// A program with much storage for each thread, of which every thread's stack gives up so much.
#include <string.h>

#include "check.h"

constexpr int kCount = 1 << 12;
thread_local volatile char mine[600 << 10];

__global__ void add(int *values, int more) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < kCount) values[i] += more;
}

void CUDART_CB called(void *) { mine[sizeof mine - 1] = 1; }

int main() {
  static int host[kCount];
  int *values;
  for (size_t i = 0; i < sizeof mine; i += 4096) mine[i] = 2;
  CHECK(cudaMalloc(&values, sizeof host));
  CHECK(cudaMemset(values, 0, sizeof host));
  for (int i = 1; i <= 10; i++) {
    add<<<kCount / 256, 256>>>(values, i);
    CHECK(cudaGetLastError());
    CHECK(cudaLaunchHostFunc(nullptr, called, nullptr));
  }
  CHECK(cudaMemcpy(host, values, sizeof host, cudaMemcpyDeviceToHost));
  int wrong = mine[sizeof mine - 1] != 0;
  for (int value : host) wrong += value != 55;
  printf("%s\n", wrong ? "WRONG" : "right");
  return wrong != 0;
}
