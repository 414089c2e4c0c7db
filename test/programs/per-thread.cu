// Compiled for per-thread default streams: work of one thread does not wait for another's.
#include <thread>

#include "check.h"

__global__ void wait_for(volatile int *flag, int *result) {
  while (*flag == 0) {
  }
  *result = *flag;
}

int main() {
  int *flag, *result;
  CHECK(cudaMalloc(&flag, sizeof *flag));
  CHECK(cudaMalloc(&result, sizeof *result));
  CHECK(cudaMemset(flag, 0, sizeof *flag));
  CHECK(cudaStreamSynchronize(cudaStreamPerThread));
  std::thread other([&] {
    wait_for<<<1, 1>>>(flag, result);
    int value = 0;
    CHECK(cudaMemcpy(&value, result, sizeof value, cudaMemcpyDeviceToHost));
    printf("the other thread read %d\n", value);
  });
  int value = 5;
  CHECK(cudaMemcpy(flag, &value, sizeof value, cudaMemcpyHostToDevice));
  other.join();
  return 0;
}
