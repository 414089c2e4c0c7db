// Uploads the same 64 MiB twice, to one place and another, with a part changed the second time, and
// prints what a kernel makes of each: what arrived is what was sent, whichever way it came.
#include <cstdint>
#include <vector>

#include "check.h"

constexpr size_t kWords = (64 << 20) / sizeof(uint64_t);

__global__ void sum(const uint64_t *words, size_t count, unsigned long long *result) {
  unsigned long long mine = 0;
  const size_t step = size_t(gridDim.x) * blockDim.x;
  for (size_t i = size_t(blockIdx.x) * blockDim.x + threadIdx.x; i < count; i += step)
    mine += words[i] * (2 * i + 1);
  atomicAdd(result, mine);
}

int main() {
  std::vector<uint64_t> host(kWords);
  uint64_t state = 1;
  for (uint64_t &word : host) word = state = state * 6364136223846793005u + 1442695040888963407u;
  uint64_t *words;
  unsigned long long *result, sums[2] = {};
  CHECK(cudaMalloc(&words, 2 * kWords * sizeof *words));
  CHECK(cudaMalloc(&result, sizeof sums));
  CHECK(cudaMemset(result, 0, sizeof sums));
  for (int turn = 0; turn < 2; turn++) {
    uint64_t *place = words + turn * kWords;
    CHECK(cudaMemcpyAsync(place, host.data(), kWords * sizeof *words, cudaMemcpyHostToDevice));
    sum<<<4, 64>>>(place, kWords, result + turn);
    CHECK(cudaDeviceSynchronize());
    host[kWords / 2] = 0;
  }
  CHECK(cudaMemcpy(sums, result, sizeof sums, cudaMemcpyDeviceToHost));
  printf("%016llx %016llx\n", sums[0], sums[1]);
}
