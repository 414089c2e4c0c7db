// Managed memory: the host and kernels use one pointer; advice and prefetches are kept and told.
#include <cstdio>

#include "../check.h"

__global__ void square(int *values, int count) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = values[i] * values[i];
}

__managed__ int total = 3;
__global__ void add_to_total(const int *values, int count) {
  for (int i = 0; i < count; i++) total += values[i];
}

static void expect(bool condition, const char *what) {
  if (condition) return;
  fprintf(stderr, "wrong: %s\n", what);
  exit(1);
}

int main() {
  constexpr int count = 10000;
  constexpr size_t bytes = count * sizeof(int);
  int *values;
  CHECK(cudaMallocManaged(&values, bytes));
  for (int i = 0; i < count; i++) values[i] = i % 100;

  cudaMemLocation device = {cudaMemLocationTypeDevice, 0}, host = {cudaMemLocationTypeHost, 0};
  CHECK(cudaMemAdvise(values, bytes, cudaMemAdviseSetReadMostly, device));
  CHECK(cudaMemAdvise(values, bytes, cudaMemAdviseSetPreferredLocation, device));
  CHECK(cudaMemAdvise(values, bytes, cudaMemAdviseSetAccessedBy, device));
  CHECK(cudaMemPrefetchAsync(values, bytes, device, 0));
  square<<<(count + 255) / 256, 256>>>(values, count);
  CHECK(cudaMemPrefetchAsync(values, bytes, host, 0));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < count; i++) expect(values[i] == (i % 100) * (i % 100), "a square");

  int read_mostly = 0, preferred = -5, last = -5, by[2] = {-5, -5};
  CHECK(cudaMemRangeGetAttribute(&read_mostly, 4, cudaMemRangeAttributeReadMostly, values, bytes));
  CHECK(cudaMemRangeGetAttribute(&preferred, 4, cudaMemRangeAttributePreferredLocation, values,
                                 bytes));
  CHECK(
      cudaMemRangeGetAttribute(&last, 4, cudaMemRangeAttributeLastPrefetchLocation, values, bytes));
  CHECK(cudaMemRangeGetAttribute(by, 8, cudaMemRangeAttributeAccessedBy, values, bytes));
  printf("read mostly %d, preferred location %d, last prefetch to %d, accessed by %d %d\n",
         read_mostly, preferred, last, by[0], by[1]);

  add_to_total<<<1, 1>>>(values, 10);
  CHECK(cudaDeviceSynchronize());
  printf("a managed variable: %d\n", total);

  cudaPointerAttributes attributes;
  CHECK(cudaPointerGetAttributes(&attributes, values));
  expect(attributes.type == cudaMemoryTypeManaged, "the pointer's type");
  int local;
  SHOW(cudaMemPrefetchAsync(&local, sizeof local, device, 0));
  SHOW(cudaMemAdvise(values, 0, cudaMemAdviseSetReadMostly, device));
  CHECK(cudaFree(values));
  return 0;
}
