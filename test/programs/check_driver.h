// Reports results of the driver API by name.
#pragma once

#include <cuda.h>

#include <cstdio>

static inline const char *driver_name(CUresult result) {
  const char *text = "?";
  cuGetErrorName(result, &text);
  return text;
}

// The call's result is what the test is about.
#define SHOW_DRIVER(call) printf("%s: %s\n", #call, driver_name(call))

// The call must succeed.
#define DRIVER(call)                                                               \
  do {                                                                             \
    CUresult result_ = (call);                                                     \
    if (result_ != CUDA_SUCCESS) {                                                 \
      fprintf(stderr, "line %d: %s: %s\n", __LINE__, #call, driver_name(result_)); \
      exit(1);                                                                     \
    }                                                                              \
  } while (0)
