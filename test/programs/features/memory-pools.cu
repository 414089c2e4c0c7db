// Stream-ordered allocation: from the default pool, from an own one with a limit, and across
// streams.
#include <cstdio>

#include "../check.h"

__global__ void fill(int *values, int value, int count) {
  for (int i = threadIdx.x; i < count; i += blockDim.x) values[i] = value;
}
__global__ void sum(const int *values, int count, int *result) {
  int all = 0;
  for (int i = 0; i < count; i++) all += values[i];
  *result = all;
}

int main() {
  constexpr int count = 1000;
  cudaStream_t first, second;
  cudaEvent_t filled;
  int *result;
  CHECK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
  CHECK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
  CHECK(cudaEventCreateWithFlags(&filled, cudaEventDisableTiming));
  CHECK(cudaMallocHost(&result, sizeof *result));

  int *values;
  CHECK(cudaMallocAsync(&values, count * sizeof(int), first));
  fill<<<1, 128, 0, first>>>(values, 3, count);
  CHECK(cudaEventRecord(filled, first));
  CHECK(cudaStreamWaitEvent(second, filled, 0));
  sum<<<1, 1, 0, second>>>(values, count, result);
  CHECK(cudaFreeAsync(values, second));
  CHECK(cudaStreamSynchronize(second));
  printf("sum over two streams: %d\n", *result);

  cudaMemPoolProps properties = {};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, 0};
  properties.maxSize = 8 << 20;
  cudaMemPool_t pool;
  CHECK(cudaMemPoolCreate(&pool, &properties));
  unsigned long long threshold = 4 << 20, used = 0, high = 0;
  CHECK(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
  int *a, *b;
  CHECK(cudaMallocFromPoolAsync(&a, 5 << 20, pool, first));
  SHOW(cudaMallocFromPoolAsync(&b, 5 << 20, pool, first));
  cudaGetLastError();
  CHECK(cudaFreeAsync(a, first));
  CHECK(cudaStreamSynchronize(first));
  CHECK(cudaMallocFromPoolAsync(&b, 5 << 20, pool, first));
  fill<<<1, 128, 0, first>>>(b, 1, count);
  CHECK(cudaFreeAsync(b, first));
  CHECK(cudaStreamSynchronize(first));
  CHECK(cudaMemPoolTrimTo(pool, 0));
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemCurrent, &used));
  CHECK(cudaMemPoolGetAttribute(pool, cudaMemPoolAttrUsedMemHigh, &high));
  printf("used %d, at most %d MiB\n", static_cast<int>(used), static_cast<int>(high >> 20));
  CHECK(cudaMemPoolDestroy(pool));
  SHOW(cudaFreeAsync(result, first));
  cudaGetLastError();
  CHECK(cudaFreeHost(result));
  return 0;
}
