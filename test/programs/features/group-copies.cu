// Cooperative groups copy into shared memory: whole blocks and tiles, and wait for some of it.
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cuda/barrier>

#include "../check.h"

namespace cg = cooperative_groups;

__global__ void by_block(const int *in, int *out) {
  __shared__ alignas(16) int a[128], b[128];
  auto block = cg::this_thread_block();
  cg::memcpy_async(block, a, in, cuda::aligned_size_t<16>(sizeof a));
  cg::memcpy_async(block, b, in + 129, sizeof b);  // aligned to 4 only
  cg::wait_prior<1>(block);
  int first = a[127 - threadIdx.x];
  cg::wait(block);
  out[threadIdx.x] = first * 1000 + b[127 - threadIdx.x];
}

__global__ void by_tile(const int *in, int *out) {
  __shared__ int cells[128];
  auto tile = cg::tiled_partition<32>(cg::this_thread_block());
  int base = tile.meta_group_rank() * 32;
  cg::memcpy_async(tile, cells + base, in + base, sizeof(int) * 32);
  cg::wait(tile);
  out[threadIdx.x] = cells[base + 31 - tile.thread_rank()];
}

int main() {
  int *in, *out;
  CHECK(cudaMallocManaged(&in, 2048));
  CHECK(cudaMallocManaged(&out, 2048));
  for (int i = 0; i < 512; i++) in[i] = i;
  by_block<<<1, 128>>>(in, out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 128; i++)
    if (out[i] != (127 - i) * 1000 + 129 + 127 - i) return fprintf(stderr, "block, %d\n", i), 1;
  by_tile<<<1, 128>>>(in, out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 128; i++)
    if (out[i] != (i & ~31) + 31 - (i & 31)) return fprintf(stderr, "tile, %d\n", i), 1;
  printf("blocks and tiles copied\n");
  return 0;
}
