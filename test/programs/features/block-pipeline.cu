// A pipeline of two stages: the next tile is fetched while the present one is summed up.
#include <cooperative_groups.h>
#include <cuda/pipeline>

#include "../check.h"

namespace cg = cooperative_groups;
constexpr int kTile = 128, kTiles = 24;

__global__ void unified(const int *in, int *out) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ alignas(16) int stage[2][kTile];
  auto block = cg::this_thread_block();
  auto pipe = cuda::make_pipeline(block, &state);
  int sum = 0;
  for (int i = 0, fetched = 0; i < kTiles; i++) {
    for (; fetched < kTiles && fetched < i + 2; fetched++) {
      pipe.producer_acquire();
      cuda::memcpy_async(block, stage[fetched & 1], in + fetched * kTile,
                         cuda::aligned_size_t<16>(sizeof(int) * kTile), pipe);
      pipe.producer_commit();
    }
    pipe.consumer_wait();
    sum += stage[i & 1][kTile - 1 - threadIdx.x] * (i + 1);
    pipe.consumer_release();
  }
  out[threadIdx.x] = sum;
}

// The first warp fetches, the others compute.
__global__ void split(const int *in, int *out) {
  __shared__ cuda::pipeline_shared_state<cuda::thread_scope_block, 2> state;
  __shared__ alignas(16) int stage[2][kTile];
  auto block = cg::this_thread_block();
  auto role = threadIdx.x < 32 ? cuda::pipeline_role::producer : cuda::pipeline_role::consumer;
  auto pipe = cuda::make_pipeline(block, &state, role);
  if (role == cuda::pipeline_role::producer) {
    for (int i = 0; i < kTiles; i++) {
      pipe.producer_acquire();
      cuda::memcpy_async(&stage[i & 1][threadIdx.x * 4], in + i * kTile + threadIdx.x * 4,
                         cuda::aligned_size_t<16>(16), pipe);
      pipe.producer_commit();
    }
    return;
  }
  int me = threadIdx.x - 32, sum = 0;
  for (int i = 0; i < kTiles; i++) {
    pipe.consumer_wait();
    sum += stage[i & 1][kTile - 1 - me] * (i + 1);
    pipe.consumer_release();
  }
  out[me] = sum;
}

int main() {
  int *in, *out;
  CHECK(cudaMallocManaged(&in, sizeof(int) * kTile * kTiles));
  CHECK(cudaMallocManaged(&out, sizeof(int) * kTile));
  for (int i = 0; i < kTile * kTiles; i++) in[i] = (i * 37) % 101;
  for (int round = 0; round < 2; round++) {
    CHECK(cudaMemset(out, 0, sizeof(int) * kTile));
    if (round == 0)
      unified<<<1, kTile>>>(in, out);
    else
      split<<<1, kTile + 32>>>(in, out);
    CHECK(cudaDeviceSynchronize());
    for (int t = 0; t < kTile; t++) {
      int want = 0;
      for (int i = 0; i < kTiles; i++) want += in[i * kTile + kTile - 1 - t] * (i + 1);
      if (out[t] != want)
        return fprintf(stderr, "round %d: %d is not %d\n", round, out[t], want), 1;
    }
  }
  printf("%d tiles went through two kinds of pipeline\n", kTiles);
  return 0;
}
