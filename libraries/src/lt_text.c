// What is known without a session.
#include <stddef.h>

#include "lt_served.h"
#include "status.h"

// Of the API that this library is: 13.0.2.
enum { VERSION = 130002, CUDART_VERSION = 13000 };

SERVED size_t cublasLtGetVersion(void) { return VERSION; }
SERVED size_t cublasLtGetCudartVersion(void) { return CUDART_VERSION; }

SERVED int cublasLtGetProperty(int type, int *value) {
  const int parts[] = {VERSION / 10000, VERSION / 100 % 100, VERSION % 100};
  if (!value || type < 0 || type > 2) return STATUS_INVALID_VALUE;
  *value = parts[type];
  return STATUS_SUCCESS;
}

static const struct {
  int status;
  const char *name, *text;
} names[] = {
    {STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED", "the library was not initialized"},
    {STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
     "an unsupported value or parameter was passed to the function"},
    {STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
     "the function requires an architectural feature absent from the device"},
    {STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR", "an access to GPU memory space failed"},
    {STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED",
     "the function failed to launch on the GPU"},
    {STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
     "the requested functionality is not supported"},
    {STATUS_LICENSE_ERROR, "CUBLAS_STATUS_LICENSE_ERROR", "the license check failed"},
};
static const char unknown[] = "unrecognized status";

SERVED const char *cublasLtGetStatusName(int status) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].status == status) return names[i].name;
  return unknown;
}

SERVED const char *cublasLtGetStatusString(int status) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].status == status) return names[i].text;
  return unknown;
}

// What is remembered here has a size of its own: the number is kept as the library does, in steps.
static size_t capacity = 8192;

SERVED int cublasLtHeuristicsCacheGetCapacity(size_t *out) {
  if (!out) return STATUS_INVALID_VALUE;
  *out = capacity;
  return STATUS_SUCCESS;
}

SERVED int cublasLtHeuristicsCacheSetCapacity(size_t wanted) {
  enum { STEP = 32 };
  if (wanted > (size_t)1 << 32) return STATUS_ALLOC_FAILED;
  capacity = (wanted + STEP - 1) / STEP * STEP;
  return STATUS_SUCCESS;
}

// The library's own log would be the server's.
SERVED int cublasLtLoggerSetLevel(int level) {
  return level < 0 ? STATUS_INVALID_VALUE : STATUS_SUCCESS;
}
SERVED int cublasLtLoggerSetMask(int mask) {
  (void)mask;
  return STATUS_SUCCESS;
}
SERVED int cublasLtLoggerSetCallback(void *callback) {
  (void)callback;
  return STATUS_SUCCESS;
}
SERVED int cublasLtLoggerSetFile(void *file) {
  (void)file;
  return STATUS_SUCCESS;
}
SERVED int cublasLtLoggerOpenFile(const char *file) {
  (void)file;
  return STATUS_SUCCESS;
}
SERVED int cublasLtLoggerForceDisable(void) { return STATUS_SUCCESS; }
