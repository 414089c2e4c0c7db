// Blocks that pass data on: fences, volatile flags, release and acquire of atomics.
#include <cuda/atomic>

#include "../check.h"

// Each block waits for the one before it, adds to its data and hands them on.
__global__ void by_fence(volatile int *flags, int *data) {
  int block = blockIdx.x;
  if (threadIdx.x == 0 && block > 0)
    while (flags[block - 1] == 0) {
    }
  __syncthreads();
  __threadfence();
  int i = threadIdx.x;
  data[block * 32 + i] = (block ? data[(block - 1) * 32 + i] : 0) + i;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) flags[block] = 1;
}

__global__ void by_order(int *flags, int *data) {
  int block = blockIdx.x;
  if (threadIdx.x == 0 && block > 0) {
    cuda::atomic_ref<int, cuda::thread_scope_device> before(flags[block - 1]);
    while (before.load(cuda::memory_order_acquire) == 0) {
    }
  }
  __syncthreads();
  int i = threadIdx.x;
  data[block * 32 + i] = (block ? data[(block - 1) * 32 + i] : 0) + 2 * i;
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::atomic_ref<int, cuda::thread_scope_device> mine(flags[block]);
    mine.store(1, cuda::memory_order_release);
  }
}

// The last block to finish adds up what all have left.
__global__ void last_one(const int *data, int *sums, unsigned *count, int *total) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    int sum = 0;
    for (int i = 0; i < 32; i++) sum += data[blockIdx.x * 32 + i];
    sums[blockIdx.x] = sum;
    __threadfence();
    last = atomicInc(count, gridDim.x - 1) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && threadIdx.x == 0) {
    int sum = 0;
    for (unsigned i = 0; i < gridDim.x; i++) sum += static_cast<volatile int *>(sums)[i];
    *total = sum;
  }
}

int main() {
  constexpr int kBlocks = 40;
  int *flags, *data, *sums, *total;
  unsigned *count;
  CHECK(cudaMalloc(&flags, sizeof(int) * kBlocks));
  CHECK(cudaMalloc(&sums, sizeof(int) * kBlocks));
  CHECK(cudaMallocManaged(&data, sizeof(int) * kBlocks * 32));
  CHECK(cudaMallocManaged(&total, sizeof(int)));
  CHECK(cudaMalloc(&count, sizeof(unsigned)));
  CHECK(cudaMemset(count, 0, sizeof(unsigned)));
  for (int factor = 1; factor <= 2; factor++) {
    CHECK(cudaMemset(flags, 0, sizeof(int) * kBlocks));
    if (factor == 1)
      by_fence<<<kBlocks, 32>>>(flags, data);
    else
      by_order<<<kBlocks, 32>>>(flags, data);
    last_one<<<kBlocks, 32>>>(data, sums, count, total);
    CHECK(cudaDeviceSynchronize());
    int want = 0;
    for (int block = 0; block < kBlocks; block++)
      for (int i = 0; i < 32; i++) {
        want += factor * i * (block + 1);
        if (data[block * 32 + i] != factor * i * (block + 1))
          return fprintf(stderr, "block %d, thread %d: %d\n", block, i, data[block * 32 + i]), 1;
      }
    if (*total != want) return fprintf(stderr, "the total is %d, not %d\n", *total, want), 1;
  }
  printf("%d blocks passed it on, the last one added up\n", kBlocks);
  return 0;
}
