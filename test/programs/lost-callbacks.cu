// Waits for callbacks, while the server is taken away: they are called all the same, in order, and
// told what has happened. A function that its stream has not come to is not called.
#include <atomic>
#include <chrono>
#include <thread>

#include "check.h"

static std::atomic<bool> reached, open_;
static std::atomic<int> functions, tells;
static cudaError_t told[4];

static void rest() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }
static void hold(void *) {
  reached = true;
  while (!open_) rest();
}
static void count(void *) { functions++; }
static void tell(cudaStream_t, cudaError_t status, void *which) {
  if (reinterpret_cast<size_t>(which) == static_cast<size_t>(tells.load()))
    told[tells.load()] = status;
  tells++;
}

int main() {
  cudaStream_t held;
  CHECK(cudaStreamCreateWithFlags(&held, cudaStreamNonBlocking));
  CHECK(cudaLaunchHostFunc(held, hold, nullptr));
  while (!reached) rest();
  for (size_t i = 0; i < 4; i++) {
    CHECK(cudaStreamAddCallback(held, tell, reinterpret_cast<void *>(i), 0));
    CHECK(cudaLaunchHostFunc(held, count, nullptr));
  }
  printf("working\n");
  fflush(stdout);
  cudaError_t result;
  while ((result = cudaStreamQuery(held)) == cudaErrorNotReady) rest();
  printf("then: %s\n", cudaGetErrorName(result));
  SHOW(cudaStreamAddCallback(held, tell, nullptr, 0));
  open_ = true;
  while (tells < 4) rest();
  printf("told: %s, %s\n", cudaGetErrorName(told[0]), cudaGetErrorName(told[3]));
  printf("%d functions called\n", functions.load());
  return 0;
}
