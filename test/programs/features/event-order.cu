// Events: order between streams, times, and what may not be asked of them.
#include <cstdio>

#include "../check.h"

__global__ void append(int *list, int value) { list[++list[0]] = value; }

int main() {
  cudaStream_t first, second;
  cudaEvent_t begin, middle, end, untimed;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreateWithFlags(&middle, cudaEventBlockingSync));
  CHECK(cudaEventCreate(&end));
  CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  int *list, host[4];
  CHECK(cudaMalloc(&list, sizeof host));
  CHECK(cudaMemset(list, 0, sizeof host));
  CHECK(cudaDeviceSynchronize());
  float milliseconds;
  SHOW(cudaEventElapsedTime(&milliseconds, begin, end));  // never recorded
  SHOW(cudaEventQuery(begin));
  CHECK(cudaEventRecord(begin, first));
  append<<<1, 1, 0, first>>>(list, 7);
  CHECK(cudaEventRecord(middle, first));
  CHECK(cudaStreamWaitEvent(second, middle, 0));
  append<<<1, 1, 0, second>>>(list, 8);
  CHECK(cudaEventRecord(untimed, second));
  CHECK(cudaStreamWaitEvent(first, untimed, 0));
  append<<<1, 1, 0, first>>>(list, 9);
  CHECK(cudaEventRecord(end, first));
  CHECK(cudaEventSynchronize(end));
  CHECK(cudaMemcpy(host, list, sizeof host, cudaMemcpyDeviceToHost));
  printf("order %d %d %d\n", host[1], host[2], host[3]);
  float whole, part;
  CHECK(cudaEventElapsedTime(&whole, begin, end));
  CHECK(cudaEventElapsedTime(&part, begin, middle));
  printf("times add up: %d\n", part >= 0 && whole >= part);
  SHOW(cudaEventElapsedTime(&milliseconds, begin, untimed));
  SHOW(cudaEventRecord(begin, reinterpret_cast<cudaStream_t>(0x1230)));
  cudaGetLastError();
  CHECK(cudaEventDestroy(begin));
  CHECK(cudaEventDestroy(middle));
  CHECK(cudaEventDestroy(end));
  CHECK(cudaEventDestroy(untimed));
  CHECK(cudaFree(list));
  return 0;
}
