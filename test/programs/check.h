// Reports CUDA results by name, so that runs can be compared line by line.
#pragma once

#include <cstdio>
#include <cstdlib>

#include <cuda_runtime.h>

// The call must succeed.
#define CHECK(call)                                                 \
  do {                                                              \
    cudaError_t check_result = (call);                              \
    if (check_result != cudaSuccess) {                              \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, \
              cudaGetErrorName(check_result));                      \
      exit(1);                                                      \
    }                                                               \
  } while (0)

// The call's result is what the test is about.
#define SHOW(call) printf("%s: %s\n", #call, cudaGetErrorName(call))
