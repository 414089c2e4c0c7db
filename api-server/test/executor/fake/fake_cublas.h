// Controls of the fake cuBLAS, for tests in the same process: they find them with dlsym.
#pragma once

#include "cuda_driver.h"

// What cublasSscal_v2 of that many numbers does, and what cublasLtMatmul of that many rows; its
// status.
using FakeCublasWork = int (*)(CUstream stream, int n);

struct FakeCublas {
  void (*set_work)(FakeCublasWork work);
  // Handles that there are.
  int (*live)();
  // As many of the next handles cannot be made.
  void (*refuse)(int count);
  // Handles of cuBLASLt that there are.
  int (*lt_live)();
};
