// Vectors and matrices there and back: copies as the driver makes them, which need no handle.
#include <stdint.h>

#include "cublas_hand.h"
#include "door.h"
#include "status.h"

struct plane {
  const void *from;
  void *to;
  int64_t rows, columns, element;  // a row is what lies one after the other
  int64_t from_step, to_step;      // elements from one row to the next
  _Bool there;                     // to the device
};

static CUmemorytype kind_of(_Bool device) {
  return device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
}

static int copy(const struct plane *plane, void *stream, _Bool async) {
  const size_t element = (size_t)plane->element;
  const CUDA_MEMCPY2D copy = {
      .srcMemoryType = kind_of(!plane->there),
      .srcHost = plane->from,
      .srcDevice = (uintptr_t)plane->from,
      .srcPitch = (size_t)plane->from_step * element,
      .dstMemoryType = kind_of(plane->there),
      .dstHost = plane->to,
      .dstDevice = (uintptr_t)plane->to,
      .dstPitch = (size_t)plane->to_step * element,
      .WidthInBytes = (size_t)plane->columns * element,
      .Height = (size_t)plane->rows,
  };
  const CUresult result = door_copy(&copy, stream, async);
  if (result == CUDA_SUCCESS) return STATUS_SUCCESS;
  return status_of(result) == STATUS_NOT_INITIALIZED ? STATUS_NOT_INITIALIZED
                                                     : STATUS_MAPPING_ERROR;
}

// Larger than any memory, and so small that products of two have no end.
static _Bool is_sane(int64_t value) { return value <= (int64_t)1 << 31; }

static int vector(int64_t n, int64_t element, const void *from, int64_t from_step, void *to,
                  int64_t to_step, _Bool there, void *stream, _Bool async) {
  if (n == 0) return STATUS_SUCCESS;
  if (from_step <= 0 || to_step <= 0 || element <= 0) return STATUS_INVALID_VALUE;
  if (!is_sane(n) || !is_sane(from_step) || !is_sane(to_step) || !is_sane(element))
    return STATUS_INVALID_VALUE;
  // As the library has it, that is a copy which fails.
  if (n < 0) return STATUS_MAPPING_ERROR;
  struct plane plane = {from, to, n, 1, element, from_step, to_step, there};
  // All that lies together is one row.
  if (from_step == 1 && to_step == 1) plane = (struct plane){from, to, 1, n, element, n, n, there};
  return copy(&plane, stream, async);
}

static int matrix(int64_t rows, int64_t columns, int64_t element, const void *from,
                  int64_t from_step, void *to, int64_t to_step, _Bool there, void *stream,
                  _Bool async) {
  if (rows == 0 || columns == 0) return STATUS_SUCCESS;
  if (rows < 0 || columns < 0) return STATUS_INVALID_VALUE;
  if (from_step <= 0 || to_step <= 0 || element <= 0) return STATUS_INVALID_VALUE;
  if (from_step < rows || to_step < rows) return STATUS_INVALID_VALUE;
  if (!is_sane(columns) || !is_sane(from_step) || !is_sane(to_step) || !is_sane(element))
    return STATUS_INVALID_VALUE;
  const struct plane plane = {from, to, columns, rows, element, from_step, to_step, there};
  return copy(&plane, stream, async);
}

#define VECTORS(suffix, number)                                                                   \
  int cublas_cublasSetVector##suffix(number n, number element, void *from, number from_step,      \
                                     void *to, number to_step) {                                  \
    return vector(n, element, from, from_step, to, to_step, 1, NULL, 0);                          \
  }                                                                                               \
  int cublas_cublasGetVector##suffix(number n, number element, void *from, number from_step,      \
                                     void *to, number to_step) {                                  \
    return vector(n, element, from, from_step, to, to_step, 0, NULL, 0);                          \
  }                                                                                               \
  int cublas_cublasSetVectorAsync##suffix(number n, number element, void *from, number from_step, \
                                          void *to, number to_step, void *stream) {               \
    return vector(n, element, from, from_step, to, to_step, 1, stream, 1);                        \
  }                                                                                               \
  int cublas_cublasGetVectorAsync##suffix(number n, number element, void *from, number from_step, \
                                          void *to, number to_step, void *stream) {               \
    return vector(n, element, from, from_step, to, to_step, 0, stream, 1);                        \
  }
VECTORS(, int)
VECTORS(_64, int64_t)

#define MATRICES(suffix, number)                                                                   \
  int cublas_cublasSetMatrix##suffix(number rows, number columns, number element, void *from,      \
                                     number from_step, void *to, number to_step) {                 \
    return matrix(rows, columns, element, from, from_step, to, to_step, 1, NULL, 0);               \
  }                                                                                                \
  int cublas_cublasGetMatrix##suffix(number rows, number columns, number element, void *from,      \
                                     number from_step, void *to, number to_step) {                 \
    return matrix(rows, columns, element, from, from_step, to, to_step, 0, NULL, 0);               \
  }                                                                                                \
  int cublas_cublasSetMatrixAsync##suffix(number rows, number columns, number element, void *from, \
                                          number from_step, void *to, number to_step,              \
                                          void *stream) {                                          \
    return matrix(rows, columns, element, from, from_step, to, to_step, 1, stream, 1);             \
  }                                                                                                \
  int cublas_cublasGetMatrixAsync##suffix(number rows, number columns, number element, void *from, \
                                          number from_step, void *to, number to_step,              \
                                          void *stream) {                                          \
    return matrix(rows, columns, element, from, from_step, to, to_step, 0, stream, 1);             \
  }
MATRICES(, int)
MATRICES(_64, int64_t)
