// Events and streams: queries, waits across streams, times.
#include "check.h"

__global__ void spin(int rounds, int *out) {
  int value = threadIdx.x;
  for (int i = 0; i < rounds; i++) value = value * 1664525 + 1013904223;
  out[threadIdx.x] = value;
}

__global__ void copy(const int *from, int *to) { to[threadIdx.x] = from[threadIdx.x]; }

int main() {
  int *first, *second;
  CHECK(cudaMalloc(&first, 128 * sizeof(int)));
  CHECK(cudaMalloc(&second, 128 * sizeof(int)));
  cudaStream_t a, b;
  cudaEvent_t begin, done;
  CHECK(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithPriority(&b, cudaStreamNonBlocking, -1));
  CHECK(cudaEventCreate(&begin));
  CHECK(cudaEventCreate(&done));
  SHOW(cudaEventQuery(begin));
  CHECK(cudaEventRecord(begin, a));
  spin<<<1, 128, 0, a>>>(200000, first);
  CHECK(cudaEventRecord(done, a));
  CHECK(cudaStreamWaitEvent(b, done, 0));
  copy<<<1, 128, 0, b>>>(first, second);
  // Polls as programs do; how often is a matter of speed, the end is not.
  cudaError_t result;
  while ((result = cudaEventQuery(done)) == cudaErrorNotReady) {
  }
  printf("event: %s\n", cudaGetErrorName(result));
  while ((result = cudaStreamQuery(b)) == cudaErrorNotReady) {
  }
  printf("stream: %s\n", cudaGetErrorName(result));
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, begin, done));
  printf("time passed: %s\n", milliseconds > 0 ? "yes" : "no");
  int one[128], two[128];
  CHECK(cudaMemcpy(one, first, sizeof one, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(two, second, sizeof two, cudaMemcpyDeviceToHost));
  bool same = true;
  for (int i = 0; i < 128; i++) same = same && one[i] == two[i];
  printf("the second stream waited: %s\n", same ? "yes" : "no");
  cudaEvent_t untimed;
  CHECK(cudaEventCreateWithFlags(&untimed, cudaEventDisableTiming));
  CHECK(cudaEventRecord(untimed, a));
  CHECK(cudaEventSynchronize(untimed));
  SHOW(cudaEventElapsedTime(&milliseconds, begin, untimed));
  int least, greatest;
  CHECK(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  printf("there are priorities: %s\n", least >= greatest ? "yes" : "no");
  return 0;
}
