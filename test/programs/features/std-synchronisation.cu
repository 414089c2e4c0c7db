// Atomics, semaphores and latches of libcu++, between threads of blocks and of the device.
#include <cuda/atomic>
#include <cuda/latch>
#include <cuda/semaphore>
#include <cuda/std/atomic>

#include "../check.h"

using Latch = cuda::latch<cuda::thread_scope_block>;
using Semaphore = cuda::counting_semaphore<cuda::thread_scope_device, 3>;

__device__ Semaphore gate{3};
__device__ cuda::atomic<int, cuda::thread_scope_device> inside{0}, most{0}, passed{0};

__global__ void latches(int *out) {
  __shared__ alignas(Latch) unsigned char storage[sizeof(Latch)];
  __shared__ int cells[64];
  auto *latch = reinterpret_cast<Latch *>(storage);
  if (threadIdx.x == 0) new (latch) Latch(64);
  __syncthreads();
  cells[threadIdx.x] = threadIdx.x * 3;
  latch->arrive_and_wait();
  out[threadIdx.x] = cells[63 - threadIdx.x];
}

__global__ void semaphores() {
  gate.acquire();
  most.fetch_max(inside.fetch_add(1) + 1);
  inside.fetch_sub(1);
  gate.release();
  passed.fetch_add(1, cuda::memory_order_relaxed);
}

__global__ void atomics(long long *out) {
  cuda::atomic_ref<long long, cuda::thread_scope_device> sum(out[0]), highest(out[1]);
  cuda::atomic_ref<long long, cuda::thread_scope_system> product(out[2]);
  long long me = blockIdx.x * blockDim.x + threadIdx.x;
  sum.fetch_add(me, cuda::memory_order_relaxed);
  highest.fetch_max(me);
  if (me < 8)
    for (long long seen = product.load(); !product.compare_exchange_weak(seen, seen * 2);) {
    }
  // One tells all the others.
  cuda::atomic_ref<long long, cuda::thread_scope_device> flag(out[3]);
  if (me == 0) flag.store(5, cuda::memory_order_release), flag.notify_all();
  flag.wait(0, cuda::memory_order_acquire);
}

__global__ void report(int *out) {
  out[0] = most;
  out[1] = passed;
  out[2] = inside;
}

int main() {
  int *out;
  long long *sums;
  CHECK(cudaMallocManaged(&out, sizeof(int) * 64));
  CHECK(cudaMallocManaged(&sums, sizeof(long long) * 4));
  latches<<<1, 64>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; i++)
    if (out[i] != (63 - i) * 3) return fprintf(stderr, "latch: %d\n", i), 1;
  semaphores<<<4, 8>>>();
  report<<<1, 1>>>(out);
  CHECK(cudaDeviceSynchronize());
  if (out[0] < 1 || out[0] > 3 || out[1] != 32 || out[2] != 0)
    return fprintf(stderr, "semaphore: %d at once, %d passed\n", out[0], out[1]), 1;
  sums[0] = sums[1] = sums[3] = 0;
  sums[2] = 1;
  atomics<<<4, 64>>>(sums);
  CHECK(cudaDeviceSynchronize());
  if (sums[0] != 255 * 128 || sums[1] != 255 || sums[2] != 256 || sums[3] != 5)
    return fprintf(stderr, "%lld %lld %lld %lld\n", sums[0], sums[1], sums[2], sums[3]), 1;
  printf("latches, semaphores and atomics agree\n");
  return 0;
}
