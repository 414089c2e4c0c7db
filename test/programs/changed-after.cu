// Host memory that is overwritten, unmapped or freed as soon as the call that copies from it has
// returned.
#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "check.h"

namespace {

constexpr size_t kMost = 3 << 20;
constexpr int kRounds = 60;

uint32_t state = 1;
uint32_t next() { return state = state * 1664525u + 1013904223u; }

void fill(uint8_t *bytes, size_t size, int round) {
  for (size_t i = 0; i < size; i++) bytes[i] = static_cast<uint8_t>(i * 7 + i / 251 + round);
}

__global__ void add_up(const uint8_t *bytes, size_t size, unsigned long long *sum) {
  unsigned long long mine = 0;
  for (size_t i = threadIdx.x; i < size; i += blockDim.x) mine += bytes[i] * (i % 1021 + 1);
  atomicAdd(sum, mine);
}

unsigned long long sum_of(const uint8_t *bytes, size_t size) {
  unsigned long long sum = 0;
  for (size_t i = 0; i < size; i++) sum += bytes[i] * (i % 1021 + 1);
  return sum;
}

}  // namespace

int main() {
  uint8_t *device, *pinned;
  unsigned long long *sums, expected[kRounds], got[kRounds];
  CHECK(cudaMalloc(&device, kMost));
  CHECK(cudaMalloc(&sums, sizeof got));
  CHECK(cudaMemset(sums, 0, sizeof got));
  CHECK(cudaHostAlloc(&pinned, kMost, cudaHostAllocDefault));
  cudaStream_t stream;
  CHECK(cudaStreamCreate(&stream));
  for (int round = 0; round < kRounds; round++) {
    // Small, of some pages, and large ones.
    const size_t size = 1 + next() % (round % 3 == 0 ? 2000 : round % 3 == 1 ? 100000 : kMost);
    const int kind = static_cast<int>(next() >> 16) % 4;
    uint8_t *host;
    if (kind == 0)
      host = static_cast<uint8_t *>(malloc(size));
    else if (kind == 3)
      host = pinned;
    else
      host = static_cast<uint8_t *>(
          mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    fill(host, size, round);
    expected[round] = sum_of(host, size);
    if (kind == 2)
      CHECK(cudaMemcpyAsync(device, host, size, cudaMemcpyHostToDevice, stream));
    else
      CHECK(cudaMemcpy(device, host, size, cudaMemcpyHostToDevice));
    memset(host, 0xee, size);
    if (kind == 0) free(host);
    if (kind == 1 || kind == 2) munmap(host, size);
    add_up<<<1, 64, 0, stream>>>(device, size, sums + round);
    CHECK(cudaStreamSynchronize(stream));
  }
  CHECK(cudaMemcpy(got, sums, sizeof got, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int round = 0; round < kRounds; round++) wrong += got[round] != expected[round];
  printf("%d copies, %s\n", kRounds, wrong ? "WRONG" : "all of what was there");
  return wrong != 0;
}
