// Device functions that call themselves, to the stack's limit and over it.
#include "../check.h"

__device__ __noinline__ int ackermann(int m, int n) {
  if (m == 0) return n + 1;
  if (n == 0) return ackermann(m - 1, 1);
  return ackermann(m - 1, ackermann(m, n - 1));
}

__device__ __noinline__ int odd(int n);
__device__ __noinline__ int even(int n) { return n == 0 ? 1 : odd(n - 1); }
__device__ __noinline__ int odd(int n) { return n == 0 ? 0 : even(n - 1); }

__device__ __noinline__ int deep(int n) {
  volatile int room[16];
  room[n & 15] = n;
  return n == 0 ? 0 : deep(n - 1) + room[n & 15] - n + 1;
}

__global__ void small(int *out) {
  int me = threadIdx.x;
  out[me] = me & 1 ? ackermann(me % 3, me % 4) : even(me) * 100 + odd(me);
}
__global__ void large(int *out, int depth) { *out = deep(depth); }

int host_ackermann(int m, int n) {
  if (m == 0) return n + 1;
  return host_ackermann(m - 1, n == 0 ? 1 : host_ackermann(m, n - 1));
}

int main() {
  int *out;
  CHECK(cudaMallocManaged(&out, sizeof(int) * 64));
  CHECK(cudaDeviceSetLimit(cudaLimitStackSize, 256 << 10));
  small<<<1, 64>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; i++) {
    int want = i & 1 ? host_ackermann(i % 3, i % 4) : 100;
    if (out[i] != want) return fprintf(stderr, "thread %d: %d is not %d\n", i, out[i], want), 1;
  }
  large<<<1, 1>>>(out, 1000);
  CHECK(cudaDeviceSynchronize());
  if (*out != 1000) return fprintf(stderr, "depth 1000 gave %d\n", *out), 1;
  printf("recursion of depth 1000 is right\n");
  return 0;
}
