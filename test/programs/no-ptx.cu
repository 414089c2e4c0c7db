// A program that carries machine code of one GPU and no PTX.
#include "check.h"

__global__ void nothing() {}

int main() {
  nothing<<<1, 1>>>();
  SHOW(cudaGetLastError());
  SHOW(cudaDeviceSynchronize());
  void *memory;
  SHOW(cudaMalloc(&memory, 16));
  return 0;
}
