// A cuBLAS for tests: handles that do nothing but say what they are told, and one function whose
// work the test itself does.
#include "fake_cublas.h"

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

struct Handle {
  CUstream stream = nullptr;
  int mode = 0;
};
std::atomic<int> live{0}, refused{0}, lt_live{0};
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

EXPORT const FakeCublas fake_cublas = {
    [](FakeCublasWork mine) { work = mine; }, [] { return live.load(); },
    [](int count) { refused = count; }, [] { return lt_live.load(); }};

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

// ---- cuBLASLt: descriptors that keep nothing but how many rows there are ------------------------

namespace {

// As the real one has it: what is behind these 64 bytes is its own.
struct Algo {
  uint64_t words[8];
};
struct Result {
  Algo algo;
  uint64_t workspace;
  int state;
  float waves;
  int reserved[4];
};
constexpr uint64_t kMine = 0x6f676c61;
// Algorithms that were set to more than this do no product; from half of it on they need a
// workspace.
constexpr uint64_t kMost = 100;
constexpr uint32_t kTiles = 5;

int start(const void *layout, CUstream stream) {
  const FakeCublasWork mine = work.load();
  return mine ? mine(stream, *static_cast<const int *>(layout)) : 0;
}

}  // namespace

EXPORT int cublasLtCreate(void **handle) {
  *handle = new int;
  lt_live++;
  return 0;
}
EXPORT int cublasLtDestroy(void *handle) {
  delete static_cast<int *>(handle);
  lt_live--;
  return 0;
}
EXPORT int cublasLtMatmulDescInit_internal(void *, size_t, int, int) { return 0; }
EXPORT int cublasLtMatrixLayoutInit_internal(void *layout, size_t, int, uint64_t rows, uint64_t,
                                             int64_t) {
  *static_cast<int *>(layout) = static_cast<int>(rows);
  return 0;
}
EXPORT int cublasLtMatrixTransformDescInit_internal(void *, size_t, int) { return 0; }
EXPORT int cublasLtMatmulPreferenceInit_internal(void *, size_t) { return 0; }
EXPORT int cublasLtMatmulDescSetAttribute(void *, int id, const void *, size_t) {
  // An attribute that this release does not have.
  return id == 38 ? 7 : 0;
}
EXPORT int cublasLtMatrixLayoutSetAttribute(void *, int, const void *, size_t) { return 0; }
EXPORT int cublasLtMatrixTransformDescSetAttribute(void *, int, const void *, size_t) { return 0; }
EXPORT int cublasLtMatmulPreferenceSetAttribute(void *, int, const void *, size_t) { return 0; }
EXPORT int cublasLtMatmul(void *, void *, const void *, const void *, void *, const void *, void *,
                          const void *, const void *, void *, void *, void *d, const void *algo,
                          void *, size_t, CUstream stream) {
  // One that is not its own would have it do anything.
  if (algo && static_cast<const Algo *>(algo)->words[0] != kMine) __builtin_trap();
  // Nor does the real one look with care whether it can do what it is set to.
  if (algo && static_cast<const Algo *>(algo)->words[3] > kMost) __builtin_trap();
  return start(d, stream);
}
EXPORT int cublasLtMatrixTransform(void *, void *, const void *, const void *, void *, const void *,
                                   const void *, void *, void *, void *c, CUstream stream) {
  return start(c, stream);
}
EXPORT int cublasLtMatmulAlgoGetHeuristic(void *, void *, void *, void *, void *, void *, void *,
                                          int wanted, Result *results, int *count) {
  for (int i = 0; i < wanted; i++) results[i] = {{{kMine, uint64_t(i)}}, 8, 0, 0.5f, {}};
  *count = wanted;
  return 0;
}
EXPORT int cublasLtMatmulAlgoCheck(void *, void *, void *, void *, void *, void *, const void *algo,
                                   Result *result) {
  const uint64_t *words = static_cast<const Algo *>(algo)->words;
  if (words[0] != kMine) __builtin_trap();
  // Nor does it look with care here whether there is such a tile.
  if (words[4] > kTiles) __builtin_trap();
  result->workspace = words[3] > kMost / 2 ? 16 : 0;
  return words[3] > kMost ? 15 : 0;
}
EXPORT int cublasLtMatmulAlgoGetIds(void *, int, int, int, int, int, int, int wanted, int *ids,
                                    int *count) {
  for (int i = 0; i < wanted; i++) ids[i] = i;
  *count = wanted;
  return 0;
}
EXPORT int cublasLtMatmulAlgoInit(void *, int, int, int, int, int, int, int id, Algo *algo) {
  *algo = {{kMine, 0, uint64_t(id)}};
  return 0;
}
EXPORT int cublasLtMatmulAlgoCapGetAttribute(const void *, int, void *value, size_t size,
                                             size_t *written) {
  if (size) *static_cast<uint32_t *>(value) = kTiles;
  *written = 4;
  return size && size != 4 ? 7 : 0;
}
EXPORT int cublasLtMatmulAlgoConfigGetAttribute(const Algo *algo, int id, void *value, size_t size,
                                                size_t *written) {
  if (id != 1 || size != 4) return 7;
  memcpy(value, &algo->words[4], size);
  *written = size;
  return 0;
}
EXPORT int cublasLtMatmulAlgoConfigSetAttribute(Algo *algo, int id, const void *value,
                                                size_t size) {
  if (size != 4) return 7;
  const uint32_t number = *static_cast<const uint32_t *>(value);
  algo->words[id == 1 ? 4 : 3] = number;
  return 0;
}
