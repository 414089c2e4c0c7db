// Several host threads at once, each with its own streams; one waits while others work.
#include <thread>
#include <vector>

#include "check.h"

__global__ void add(int *values, int count, int what) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] += what;
}

// Ends once another thread has set the flag.
__global__ void wait_for(volatile int *flag, int *result) {
  while (*flag == 0) {
  }
  *result = *flag;
}

static void work(int number, bool *right) {
  const int count = 5000;
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  int *device;
  CHECK(cudaMalloc(&device, count * sizeof(int)));
  CHECK(cudaMemsetAsync(device, 0, count * sizeof(int), stream));
  for (int round = 0; round < 50; round++) {
    add<<<(count + 255) / 256, 256, 0, stream>>>(device, count, number + round);
    if (round % 10 == 9) CHECK(cudaStreamSynchronize(stream));
  }
  std::vector<int> back(count);
  CHECK(cudaMemcpyAsync(back.data(), device, count * sizeof(int), cudaMemcpyDeviceToHost, stream));
  CHECK(cudaStreamSynchronize(stream));
  *right = true;
  for (int value : back) *right = *right && value == 50 * number + 49 * 50 / 2;
  // Freeing would wait for all work on the device, the kernel that waits for us included.
  CHECK(cudaStreamDestroy(stream));
}

int main() {
  int *flag, *result;
  CHECK(cudaMalloc(&flag, sizeof *flag));
  CHECK(cudaMalloc(&result, sizeof *result));
  CHECK(cudaMemset(flag, 0, sizeof *flag));
  // A kernel that is used for the first time is loaded, for which a driver may wait for all work on
  // the device; and the work here waits for threads that use it.
  add<<<1, 1>>>(flag, 0, 0);
  CHECK(cudaDeviceSynchronize());
  cudaStream_t waiting, setting;
  CHECK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&setting, cudaStreamNonBlocking));
  wait_for<<<1, 1, 0, waiting>>>(flag, result);
  std::thread waiter([&] { CHECK(cudaStreamSynchronize(waiting)); });

  bool right[4];
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; i++) threads.emplace_back(work, i + 1, &right[i]);
  for (std::thread &thread : threads) thread.join();
  for (int i = 0; i < 4; i++) printf("thread %d: %s\n", i + 1, right[i] ? "right" : "WRONG");

  int value = 77;
  CHECK(cudaMemcpyAsync(flag, &value, sizeof value, cudaMemcpyHostToDevice, setting));
  waiter.join();
  value = 0;
  CHECK(cudaMemcpy(&value, result, sizeof value, cudaMemcpyDeviceToHost));
  printf("the one that waited: %d\n", value);
  return 0;
}
