// What is known without a session.
#include <stdlib.h>

#include "cublas_hand.h"
#include "status.h"

// Of the API that this library is, until a handle says which version serves it: 13.0.2.
enum { VERSION = 130002, CUDART_VERSION = 13000 };

int cublas_cublasGetProperty(int type, void *out) {
  if (!out) return STATUS_INVALID_VALUE;
  switch (type) {
    case 0:
      *(int *)out = VERSION / 10000;
      return STATUS_SUCCESS;
    case 1:
      *(int *)out = VERSION / 100 % 100;
      return STATUS_SUCCESS;
    case 2:
      *(int *)out = VERSION % 100;
      return STATUS_SUCCESS;
    default:
      return STATUS_INVALID_VALUE;
  }
}

size_t cublas_cublasGetCudartVersion(void) { return CUDART_VERSION; }

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

const char *cublas_cublasGetStatusName(int status) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].status == status) return names[i].name;
  return unknown;
}

const char *cublas_cublasGetStatusString(int status) {
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    if (names[i].status == status) return names[i].text;
  return unknown;
}

// The library's own log would be the server's.
static void *callback;

int cublas_cublasLoggerConfigure(int on, int to_stdout, int to_stderr, const char *file) {
  (void)on, (void)to_stdout, (void)to_stderr, (void)file;
  return STATUS_SUCCESS;
}

int cublas_cublasSetLoggerCallback(void *given) {
  callback = given;
  return STATUS_SUCCESS;
}

int cublas_cublasGetLoggerCallback(void *out) {
  if (!out) return STATUS_INVALID_VALUE;
  *(void **)out = callback;
  return STATUS_SUCCESS;
}
