// Bulk copies: one thread moves a tile in, a barrier counts its bytes, and one moves it out.
// flags: -gencode arch=compute_90,code=compute_90
#include <cuda/barrier>
#include <cuda/ptx>

#include "../check.h"

using Barrier = cuda::barrier<cuda::thread_scope_block>;
constexpr int kTile = 512;

__global__ void twice(const int *in, int *out) {
  __shared__ alignas(16) int tile[kTile];
  __shared__ alignas(Barrier) unsigned char storage[sizeof(Barrier)];
  auto *bar = reinterpret_cast<Barrier *>(storage);
  if (threadIdx.x == 0) {
    init(bar, blockDim.x);
    cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  }
  __syncthreads();
  Barrier::arrival_token token;
  if (threadIdx.x == 0) {
    cuda::device::memcpy_async_tx(tile, in + blockIdx.x * kTile,
                                  cuda::aligned_size_t<16>(sizeof tile), *bar);
    token = cuda::device::barrier_arrive_tx(*bar, 1, sizeof tile);
  } else {
    token = bar->arrive();
  }
  bar->wait(std::move(token));
  for (int i = threadIdx.x; i < kTile; i += blockDim.x) tile[i] *= 2;
  cuda::ptx::fence_proxy_async(cuda::ptx::space_shared);
  __syncthreads();
  if (threadIdx.x == 0) {
    cuda::ptx::cp_async_bulk(cuda::ptx::space_global, cuda::ptx::space_shared,
                             out + blockIdx.x * kTile, tile, sizeof tile);
    cuda::ptx::cp_async_bulk_commit_group();
    cuda::ptx::cp_async_bulk_wait_group_read(cuda::ptx::n32_t<0>());
  }
}

int main() {
  int *in, *out;
  CHECK(cudaMallocManaged(&in, sizeof(int) * kTile * 4));
  CHECK(cudaMallocManaged(&out, sizeof(int) * kTile * 4));
  for (int i = 0; i < kTile * 4; i++) in[i] = i ^ 0x155;
  twice<<<4, 96>>>(in, out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < kTile * 4; i++)
    if (out[i] != 2 * in[i]) return fprintf(stderr, "%d: %d\n", i, out[i]), 1;
  printf("4 tiles went in and out\n");
  return 0;
}
