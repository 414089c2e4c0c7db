// Functions of the program that streams call: in order, with the results of work before them.
#include <cstdio>

#include "../check.h"

__global__ void store(int *at, int value) { *at = value; }

static int log_[8], logged;
static void note(void *value) { log_[logged++] = *static_cast<int *>(value); }
static void told(cudaStream_t, cudaError_t status, void *value) {
  log_[logged++] = status == cudaSuccess ? *static_cast<int *>(value) + 100 : -1;
}
static cudaError_t inside;
static void calls_cuda(void *) { inside = cudaMemset(nullptr, 0, 0), inside = cudaFree(nullptr); }

int main() {
  int *shared;
  cudaStream_t stream;
  CHECK(cudaMallocManaged(&shared, sizeof(int)));
  CHECK(cudaStreamCreate(&stream));
  store<<<1, 1, 0, stream>>>(shared, 1);
  CHECK(cudaLaunchHostFunc(stream, note, shared));
  store<<<1, 1, 0, stream>>>(shared, 2);
  CHECK(cudaStreamAddCallback(stream, told, shared, 0));
  store<<<1, 1, 0, stream>>>(shared, 3);
  CHECK(cudaLaunchHostFunc(stream, note, shared));
  CHECK(cudaStreamSynchronize(stream));
  printf("%d calls: %d %d %d\n", logged, log_[0], log_[1], log_[2]);
  CHECK(cudaLaunchHostFunc(stream, calls_cuda, nullptr));
  CHECK(cudaStreamSynchronize(stream));
  printf("a call of CUDA inside: %s\n", cudaGetErrorName(inside));
  SHOW(cudaLaunchHostFunc(stream, nullptr, nullptr));
  cudaGetLastError();
  CHECK(cudaStreamDestroy(stream));
  CHECK(cudaFree(shared));
  return 0;
}
