// The same of the heap that kernels allocate from. A program of its own: a context whose heap has
// been used cannot be set back.
#include <cstring>

#include "check.h"

constexpr unsigned kWord = 0x5ec2e75e;

__global__ void heap(bool leave, unsigned *found) {
  constexpr int kBytes = 64 << 10;
  auto *const at = static_cast<volatile unsigned *>(malloc(kBytes));
  if (!at) return;
  // What the allocator writes is at the ends.
  for (int i = 16; i < kBytes / 4 - 16; i++) {
    if (leave)
      at[i] = kWord;
    else if (at[i] == kWord)
      atomicAdd(found, 1);
  }
  free(const_cast<unsigned *>(at));
}

int main(int argc, char **argv) {
  const bool leave = argc > 1 && strcmp(argv[1], "leave") == 0;
  unsigned *found, words;
  CHECK(cudaMalloc(&found, sizeof *found));
  CHECK(cudaMemset(found, 0, sizeof *found));
  heap<<<1, 1>>>(leave, found);
  CHECK(cudaMemcpy(&words, found, sizeof words, cudaMemcpyDeviceToHost));
  if (!leave) printf("heap: %u\n", words);
  return 0;
}
