// The primitives of asynchronous copies: zero fill, several copies in flight, and their barriers.
#include <cuda_awbarrier_primitives.h>
#include <cuda_pipeline.h>

#include "../check.h"

__global__ void staged(const int *in, int *out, int count) {
  __shared__ alignas(16) int stage[4][128];
  int tiles = (count + 127) / 128, me = threadIdx.x;
  auto fetch = [&](int tile) {
    if (tile < tiles) {
      int at = tile * 128 + me * 4, left = count - at;
      int zeros = left >= 4 ? 0 : left <= 0 ? 16 : 16 - 4 * left;
      __pipeline_memcpy_async(&stage[tile % 4][me * 4], in + (left > 0 ? at : 0), 16, zeros);
    }
    __pipeline_commit();
  };
  for (int i = 0; i < 3; i++) fetch(i);
  int sum = 0;
  for (int tile = 0; tile < tiles; tile++) {
    fetch(tile + 3);
    __pipeline_wait_prior(3);
    __syncthreads();
    for (int i = 0; i < 4; i++) sum += stage[tile % 4][(127 - me * 4) - i] * (tile + 1);
    __syncthreads();
  }
  out[me] = sum;
}

__global__ void counted(const int *in, int *out) {
  __shared__ __mbarrier_t barrier;
  __shared__ int cells[64];
  int me = threadIdx.x;
  if (me == 0) __mbarrier_init(&barrier, 64);
  __syncthreads();
  __pipeline_memcpy_async(&cells[me], &in[me], 4);
  __pipeline_arrive_on(&barrier);
  __mbarrier_token_t token = __mbarrier_arrive(&barrier);
  while (!__mbarrier_test_wait(&barrier, token)) {
  }
  out[me] = cells[63 - me];
}

int main() {
  constexpr int kCount = 1000;
  int *in, *out;
  CHECK(cudaMallocManaged(&in, sizeof(int) * kCount));
  CHECK(cudaMallocManaged(&out, sizeof(int) * 64));
  for (int i = 0; i < kCount; i++) in[i] = i % 29 + 1;
  staged<<<1, 32>>>(in, out, kCount);
  CHECK(cudaDeviceSynchronize());
  for (int me = 0; me < 32; me++) {
    int want = 0;
    for (int tile = 0; tile < 8; tile++)
      for (int i = 0; i < 4; i++) {
        int at = tile * 128 + 127 - me * 4 - i;
        want += at < kCount ? in[at] * (tile + 1) : 0;
      }
    if (out[me] != want) return fprintf(stderr, "thread %d: %d is not %d\n", me, out[me], want), 1;
  }
  counted<<<1, 64>>>(in, out);
  CHECK(cudaDeviceSynchronize());
  for (int me = 0; me < 64; me++)
    if (out[me] != in[63 - me]) return fprintf(stderr, "thread %d: %d\n", me, out[me]), 1;
  printf("8 tiles were staged, 64 copies were counted\n");
  return 0;
}
