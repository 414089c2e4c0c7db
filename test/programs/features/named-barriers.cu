// Barriers by number: warps that produce and warps that consume, barriers that count votes.
#include "../check.h"

__device__ void sync(int barrier, int threads) {
  asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}
__device__ void arrive(int barrier, int threads) {
  asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// Two buffers: barrier 1 + b says that b is full, 3 + b that it is empty.
__global__ void pass(int *out, int rounds) {
  __shared__ int buffer[2][32];
  int lane = threadIdx.x % 32, sum = 0;
  if (threadIdx.x < 32) {
    for (int i = 0; i < rounds; i++) {
      if (i >= 2) sync(3 + i % 2, 96);
      buffer[i % 2][lane] = i * 100 + lane;
      arrive(1 + i % 2, 96);
    }
  } else {
    for (int i = 0; i < rounds; i++) {
      sync(1 + i % 2, 96);
      sum += buffer[i % 2][31 - lane];
      if (i + 2 < rounds) arrive(3 + i % 2, 96);
    }
  }
  out[threadIdx.x] = sum;
}

__global__ void votes(int *out) {
  int me = threadIdx.x;
  int count = __syncthreads_count(me % 5 == 0);
  int all = __syncthreads_and(me < 96), any = __syncthreads_or(me == 95);
  int none = __syncthreads_or(me > 95);
  out[me] = count * 1000 + (all != 0) * 100 + (any != 0) * 10 + (none != 0);
}

int main() {
  int *out;
  CHECK(cudaMallocManaged(&out, sizeof(int) * 96));
  constexpr int kRounds = 20;
  pass<<<1, 96>>>(out, kRounds);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 96; i++) {
    int want = i < 32 ? 0 : kRounds * (kRounds - 1) / 2 * 100 + kRounds * (31 - i % 32);
    if (out[i] != want) return fprintf(stderr, "thread %d: %d is not %d\n", i, out[i], want), 1;
  }
  votes<<<1, 96>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 96; i++)
    if (out[i] != 20110) return fprintf(stderr, "thread %d: votes %d\n", i, out[i]), 1;
  printf("%d rounds went from warp to warps\n", kRounds);
  return 0;
}
