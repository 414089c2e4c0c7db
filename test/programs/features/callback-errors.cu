// What follows a kernel that fails: functions are not called any more, callbacks are told of it,
// and every later call has the error.
#include <atomic>
#include <chrono>
#include <cstdio>
#include <thread>

#include "../check.h"

__global__ void fail(int *never) {
  if (never) __trap();
}

static std::atomic<bool> open_;
static std::atomic<int> functions;
static cudaError_t told[3];
static std::atomic<int> tells;
static void hold(void *) {
  while (!open_) std::this_thread::sleep_for(std::chrono::microseconds(100));
}
static void count(void *) { functions++; }
static void tell(cudaStream_t, cudaError_t status, void *) {
  told[tells.load()] = status;
  tells++;
}

int main() {
  cudaStream_t stream;
  int *word;
  CHECK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&word, sizeof *word));
  // All of it is queued before the kernel can fail.
  CHECK(cudaLaunchHostFunc(stream, hold, nullptr));
  CHECK(cudaLaunchHostFunc(stream, count, nullptr));
  CHECK(cudaStreamAddCallback(stream, tell, nullptr, 0));
  fail<<<1, 1, 0, stream>>>(word);
  CHECK(cudaLaunchHostFunc(stream, count, nullptr));
  CHECK(cudaStreamAddCallback(stream, tell, nullptr, 0));
  CHECK(cudaLaunchHostFunc(stream, count, nullptr));
  CHECK(cudaStreamAddCallback(stream, tell, nullptr, 0));
  open_ = true;
  printf("synchronised: %s\n", cudaGetErrorName(cudaStreamSynchronize(stream)));
  // Once the kernel has failed, nobody waits for the stream: the callbacks may still be coming.
  for (int i = 0; i < 20000 && tells < 3; i++)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  printf("%d function called, %d callbacks told:", functions.load(), tells.load());
  for (cudaError_t status : told) printf(" %s", cudaGetErrorName(status));
  printf("\nanother function: %s\n", cudaGetErrorName(cudaLaunchHostFunc(stream, count, nullptr)));
  printf("another callback: %s\n",
         cudaGetErrorName(cudaStreamAddCallback(stream, tell, nullptr, 0)));
  printf("a query: %s\n", cudaGetErrorName(cudaStreamQuery(stream)));
  printf("memory: %s\n", cudaGetErrorName(cudaFree(word)));
  return 0;
}
