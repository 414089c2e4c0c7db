// The forms of a launch: parameters as pointers or as a block of bytes, with attributes,
// cooperative. flags: -lcuda
#include <cooperative_groups.h>
#include <cuda.h>
#include <cstdio>

#include "../check.h"

struct Pair {
  int first;
  double second;
};

__global__ void add(int *out, char small, Pair pair) {
  out[blockIdx.x * blockDim.x + threadIdx.x] += small + pair.first + static_cast<int>(pair.second);
}
__global__ void meet(int *out) {
  atomicAdd(out, 1);
  cooperative_groups::this_grid().sync();
  if (threadIdx.x == 0) out[1 + blockIdx.x] = out[0];
}

static bool ok(CUresult result, const char *what) {
  if (result == CUDA_SUCCESS) return true;
  const char *name;
  cuGetErrorName(result, &name);
  fprintf(stderr, "%s: %s\n", what, name);
  return false;
}

int main() {
  constexpr int threads = 64;
  int *device, host[threads];
  CHECK(cudaMalloc(&device, sizeof host));
  CHECK(cudaMemset(device, 0, sizeof host));
  CUfunction function;
  CHECK(cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(add)));

  char small = 1;
  Pair pair = {10, 100.5};
  void *parameters[] = {&device, &small, &pair};
  if (!ok(cuLaunchKernel(function, 2, 1, 1, 32, 1, 1, 0, nullptr, parameters, nullptr), "pointers"))
    return 1;

  struct Block {
    int *out;
    char small;
    alignas(8) Pair pair;
  } block = {device, 2, {20, 200.5}};
  size_t size = sizeof block;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &block, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  if (!ok(cuLaunchKernel(function, 2, 1, 1, 32, 1, 1, 0, nullptr, nullptr, extra), "a block"))
    return 1;

  cudaLaunchConfig_t config = {};
  config.gridDim = 2;
  config.blockDim = 32;
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributePriority;
  attribute.val.priority = 0;
  config.attrs = &attribute;
  config.numAttrs = 1;
  CHECK(cudaLaunchKernelEx(&config, add, device, static_cast<char>(3), Pair{30, 300.5}));
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  for (int value : host)
    if (value != 111 + 222 + 333) {
      fprintf(stderr, "an element is %d\n", value);
      return 1;
    }
  printf("three forms, one result: %d\n", host[0]);

  CHECK(cudaMemset(device, 0, sizeof host));
  void *arguments[] = {&device};
  CHECK(cudaLaunchCooperativeKernel(meet, dim3(4), dim3(16), arguments, 0, nullptr));
  CHECK(cudaMemcpy(host, device, sizeof host, cudaMemcpyDeviceToHost));
  printf("a cooperative grid met: %d %d %d %d\n", host[1], host[2], host[3], host[4]);
  SHOW(cudaLaunchCooperativeKernel(meet, dim3(1 << 20), dim3(1024), arguments, 0, nullptr));
  cudaGetLastError();
  SHOW(cudaLaunchKernel(add, dim3(1), dim3(2048), parameters, 0, nullptr));
  cudaGetLastError();
  CHECK(cudaFree(device));
  return 0;
}
