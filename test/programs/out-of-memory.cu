// Allocation fails at the limit, at once, and what is freed can be had again.
#include <vector>

#include "check.h"

int main() {
  size_t available, total;
  CHECK(cudaMemGetInfo(&available, &total));
  void *memory;
  SHOW(cudaMalloc(&memory, total + 1));
  SHOW(cudaMalloc(&memory, ~size_t(0) / 2));
  cudaGetLastError();
  const size_t piece = 64 << 20;
  std::vector<void *> pieces;
  cudaError_t result;
  while ((result = cudaMalloc(&memory, piece)) == cudaSuccess) pieces.push_back(memory);
  printf("in pieces: %s\n", cudaGetErrorName(result));
  printf("all but little was to be had: %s\n",
         (pieces.size() + 2) * piece > available ? "yes" : "no");
  CHECK(cudaMemset(pieces[0], 7, piece));
  for (void *each : pieces) CHECK(cudaFree(each));
  size_t again;
  CHECK(cudaMemGetInfo(&again, &total));
  printf("all is free again: %s\n", again + piece >= available ? "yes" : "no");
  SHOW(cudaMalloc(&memory, piece));
  unsigned char byte = 1;
  CHECK(cudaMemset(memory, 9, piece));
  CHECK(cudaMemcpy(&byte, static_cast<char *>(memory) + piece - 1, 1, cudaMemcpyDeviceToHost));
  printf("byte: %d\n", byte);
  return 0;
}
