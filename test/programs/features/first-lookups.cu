// A thread looks kernels up for the first time while a stream waits for a function of the program:
// a driver may wait for all work then, and so for the function, but nothing else waits with it.
// There are more kernels than a server describes with their module.
#include <atomic>
#include <chrono>
#include <thread>
#include <utility>

#include "../check.h"

constexpr int kKernels = 24;

template <int kNumber>
__global__ void add(int *at) {
  atomicAdd(at, kNumber);
}

template <int... kNumbers>
static void launch_all(int *at, cudaStream_t stream, std::integer_sequence<int, kNumbers...>) {
  (add<kNumbers><<<1, 1, 0, stream>>>(at), ...);
  CHECK(cudaGetLastError());
}

static std::atomic<int> entered{0}, let_go{0};
static void CUDART_CB wait_for_main(void *) {
  entered = 1;
  while (!let_go) std::this_thread::yield();
}

int main() {
  cudaStream_t waiting, adding;
  int *word;
  CHECK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&adding, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMemset(word, 0, sizeof *word));
  CHECK(cudaDeviceSynchronize());
  // The module is there, and its other kernels were never looked up.
  add<0><<<1, 1, 0, adding>>>(word);
  CHECK(cudaStreamSynchronize(adding));
  CHECK(cudaLaunchHostFunc(waiting, wait_for_main, nullptr));
  while (!entered) std::this_thread::yield();
  std::thread looks([=] {
    launch_all(word, adding, std::make_integer_sequence<int, kKernels>{});
    CHECK(cudaStreamSynchronize(adding));
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  let_go = 1;
  looks.join();
  CHECK(cudaStreamSynchronize(waiting));
  int value;
  CHECK(cudaMemcpy(&value, word, sizeof value, cudaMemcpyDeviceToHost));
  printf("added: %d\n", value);
  CHECK(cudaFree(word));
  return 0;
}
