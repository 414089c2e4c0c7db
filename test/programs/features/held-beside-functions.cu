// A function of the program waits for what another stream does, whose launches may be held back:
// nothing that holds them may keep the function from being called, or the launches from going on.
#include <atomic>

#include "../check.h"

constexpr int kLaunches = 200, kRounds = 3;

__global__ void count(int *at) { *at += 1; }

static std::atomic<int> seen{0};
static void CUDART_CB wait_until_seen(void *round) {
  while (seen.load() != *static_cast<int *>(round)) continue;
}

int main() {
  cudaStream_t waiting, counting;
  int *word;
  CHECK(cudaStreamCreateWithFlags(&waiting, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&counting, cudaStreamNonBlocking));
  CHECK(cudaMalloc(&word, sizeof *word));
  CHECK(cudaMemset(word, 0, sizeof *word));
  CHECK(cudaDeviceSynchronize());
  for (int round = 1; round <= kRounds; round++) {
    CHECK(cudaLaunchHostFunc(waiting, wait_until_seen, &round));
    for (int i = 0; i < kLaunches; i++) count<<<1, 1, 0, counting>>>(word);
    CHECK(cudaGetLastError());
    CHECK(cudaStreamSynchronize(counting));
    seen = round;
    CHECK(cudaStreamSynchronize(waiting));
  }
  int value;
  CHECK(cudaMemcpy(&value, word, sizeof value, cudaMemcpyDeviceToHost));
  printf("counted: %d\n", value);
  CHECK(cudaFree(word));
  return 0;
}
