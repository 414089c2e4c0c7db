// Results of cuBLAS (cublasStatus_t), by their numbers.
#ifndef LIBRARIES_STATUS_H
#define LIBRARIES_STATUS_H

#include "cuda_driver.h"

enum {
  STATUS_SUCCESS = 0,
  STATUS_NOT_INITIALIZED = 1,
  STATUS_ALLOC_FAILED = 3,
  STATUS_INVALID_VALUE = 7,
  STATUS_ARCH_MISMATCH = 8,
  STATUS_MAPPING_ERROR = 11,
  STATUS_EXECUTION_FAILED = 13,
  STATUS_INTERNAL_ERROR = 14,
  STATUS_NOT_SUPPORTED = 15,
  STATUS_LICENSE_ERROR = 16
};

// Returns what a program gets for an error of the driver.
int status_of(CUresult result);

#endif
