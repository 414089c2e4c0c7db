// Every CUDA call of the examples goes through CHECK: a failure is named on stderr, with the call
// and the place, and ends the program with exit code 1.
#pragma once

#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define CHECK(call) check_cuda((call), #call, __FILE__, __LINE__)

inline void check_cuda(cudaError_t error, const char *call, const char *file, int line) {
  if (error == cudaSuccess) return;
  std::fprintf(stderr, "%s:%d: %s failed: %s: %s\n", file, line, call, cudaGetErrorName(error),
               cudaGetErrorString(error));
  std::exit(1);
}
