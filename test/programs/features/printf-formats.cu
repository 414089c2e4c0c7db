// Device printf: every kind of argument, widths, strings from device memory, what it returns.
#include "../check.h"

__device__ char text[] = "from device memory";

__global__ void print(int *counts) {
  counts[0] =
      printf("%d %i %u %o %x %X|%5d|%-5d|%05d|%+d\n", -1, 2, 3u, 8, 255, 255, 42, 42, 42, 42);
  counts[1] = printf("%ld %lld %llu %#llx\n", -1L, -2LL, ~0ULL, 1ULL << 40);
  counts[2] =
      printf("%f %.2f %10.3f %-10.1f| %e %G %a\n", 1.5, 2.345, 3.14159, 2.0, 12345.678, 1e-10, 1.0);
  counts[3] = printf("%s|%10s|%-6s|%.3s|%c%c\n", text, "right", "left", "cut", 'o', 'k');
  counts[4] = printf("100%% done\n");
  counts[5] = printf("%*d\n", 6, 7);
}

__global__ void each() {
  if (threadIdx.x % 8 == 0) printf("block %d thread %d\n", blockIdx.x, threadIdx.x);
}

int main() {
  int *counts;
  CHECK(cudaMallocManaged(&counts, sizeof(int) * 6));
  print<<<1, 1>>>(counts);
  CHECK(cudaDeviceSynchronize());
  const int want[6] = {10, 4, 7, 6, 0, 2};
  // Widths given as arguments count as arguments do on some devices, so only the others are told.
  for (int i = 0; i < 5; i++)
    if (counts[i] != want[i]) return fprintf(stderr, "line %d: %d arguments\n", i, counts[i]), 1;
  each<<<1, 32>>>();
  CHECK(cudaDeviceSynchronize());
  return 0;
}
