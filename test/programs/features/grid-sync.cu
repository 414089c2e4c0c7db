// A cooperative launch, whose blocks meet many times.
#include <cooperative_groups.h>

#include "../check.h"

namespace cg = cooperative_groups;

// A prefix sum over the whole grid by doubling.
__global__ void scan(int *a, int *b, int count) {
  auto grid = cg::this_grid();
  int i = static_cast<int>(grid.thread_rank());
  for (int step = 1; step < count; step *= 2) {
    if (i < count) b[i] = a[i] + (i >= step ? a[i - step] : 0);
    grid.sync();
    int *t = a;
    a = b;
    b = t;
  }
}

int main() {
  constexpr int kBlocks = 8, kThreads = 128, kCount = kBlocks * kThreads;
  int *a, *b, count = kCount;
  CHECK(cudaMallocManaged(&a, sizeof(int) * kCount));
  CHECK(cudaMallocManaged(&b, sizeof(int) * kCount));
  for (int i = 0; i < kCount; i++) a[i] = i % 13 - 5;
  int sum = 0, want[kCount];
  for (int i = 0; i < kCount; i++) want[i] = sum += a[i];
  void *parameters[] = {&a, &b, &count};
  CHECK(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(scan), kBlocks, kThreads, parameters));
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kCount; i++)  // ten steps: the result is in a
    if (a[i] != want[i]) return fprintf(stderr, "%d: %d is not %d\n", i, a[i], want[i]), 1;
  SHOW(cudaLaunchCooperativeKernel(reinterpret_cast<void *>(scan), 1 << 20, 1024, parameters));
  printf("%d blocks met\n", kBlocks);
  return 0;
}
