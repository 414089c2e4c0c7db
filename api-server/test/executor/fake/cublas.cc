// A cuBLAS for tests: handles that do nothing but say what they are told, and one function whose
// work the test itself does.
#include "fake_cublas.h"

#include <atomic>
#include <cstdio>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Handle {
  CUstream stream = nullptr;
  int mode = 0;
};
std::atomic<int> live{0}, refused{0};
std::atomic<FakeCublasWork> work{nullptr};

int scale(void *handle, int n) {
  if (n < 0) {
    printf(" ** On entry to %-6s parameter number %2d had an illegal value\n", "SSCAL", 1);
    return 7;
  }
  const FakeCublasWork mine = work.load();
  return mine ? mine(static_cast<Handle *>(handle)->stream, n) : 0;
}

}  // namespace

EXPORT const FakeCublas fake_cublas = {[](FakeCublasWork mine) { work = mine; },
                                       [] { return live.load(); },
                                       [](int count) { refused = count; }};

EXPORT int cublasCreate_v2(void **handle) {
  if (refused > 0) {
    refused--;
    return 3;
  }
  *handle = new Handle;
  live++;
  return 0;
}
EXPORT int cublasDestroy_v2(void *handle) {
  delete static_cast<Handle *>(handle);
  live--;
  return 0;
}
EXPORT int cublasSetStream_v2(void *handle, CUstream stream) {
  static_cast<Handle *>(handle)->stream = stream;
  return 0;
}
EXPORT int cublasSetPointerMode_v2(void *handle, int mode) {
  static_cast<Handle *>(handle)->mode = mode;
  return 0;
}
EXPORT int cublasGetProperty(int, int *value) {
  *value = 13;
  return 0;
}
EXPORT int cublasSscal_v2(void *handle, int n, const float *, float *, int) {
  return scale(handle, n);
}
