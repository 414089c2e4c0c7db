// Memory from a thread's own stack: alloca, in loops and of a size that each thread chooses.
#include <alloca.h>

#include "../check.h"

__device__ __noinline__ int sum(const int *from, int count) {
  int total = 0;
  for (int i = 0; i < count; i++) total += from[i];
  return total;
}

__device__ __noinline__ int filled(int count, int seed) {
  int *room = static_cast<int *>(alloca(sizeof(int) * count));
  for (int i = 0; i < count; i++) room[i] = seed + i;
  return sum(room, count);
}

__global__ void allocate(int *out) {
  int me = threadIdx.x, total = 0;
  for (int round = 0; round < 8; round++) total += filled(me % 9 + round + 1, me);
  out[me] = total;
}

int main() {
  int *out;
  CHECK(cudaMallocManaged(&out, sizeof(int) * 64));
  allocate<<<1, 64>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int me = 0; me < 64; me++) {
    int want = 0;
    for (int round = 0; round < 8; round++)
      for (int i = 0; i < me % 9 + round + 1; i++) want += me + i;
    if (out[me] != want) return fprintf(stderr, "thread %d: %d is not %d\n", me, out[me], want), 1;
  }
  printf("64 threads took what they needed\n");
  return 0;
}
