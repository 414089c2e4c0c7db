// Cooperative groups inside a block: tiles, coalesced and labelled threads, reductions and scans.
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>

#include "../check.h"

namespace cg = cooperative_groups;

struct Result {
  int tile_sum, tile_scan, coalesced_rank, coalesced_size, label_size, label_max, binary_size,
      shuffled;
};

__global__ void groups(Result *out) {
  auto block = cg::this_thread_block();
  int me = block.thread_rank();
  Result &mine = out[me];
  auto tile = cg::tiled_partition<8>(block);
  mine.tile_sum = cg::reduce(tile, me, cg::plus<int>());
  mine.tile_scan = cg::exclusive_scan(tile, me, cg::plus<int>());
  mine.shuffled = tile.shfl_down(me, 3);
  mine.coalesced_rank = mine.coalesced_size = -1;
  if (me % 3 == 0) {
    auto here = cg::coalesced_threads();
    mine.coalesced_rank = here.thread_rank();
    mine.coalesced_size = here.size();
  }
  auto warp = cg::tiled_partition<32>(block);
  auto same = cg::labeled_partition(warp, me % 5);
  mine.label_size = same.size();
  mine.label_max = cg::reduce(same, me, cg::greater<int>());
  mine.binary_size = cg::binary_partition(warp, me % 32 < 10).size();
}

int main() {
  Result *out;
  CHECK(cudaMallocManaged(&out, sizeof(Result) * 64));
  groups<<<1, 64>>>(out);
  CHECK(cudaDeviceSynchronize());
  for (int i = 0; i < 64; i++) {
    int base = i & ~7, warp = i & ~31, rank = 0, thirds = 0, fives = 0, highest = 0;
    for (int other = warp; other < warp + 32; other++) {
      if (other % 3 == 0) thirds++, rank += other < i;
      if (other % 5 == i % 5) fives++, highest = other;
    }
    int scan = 0;
    for (int other = base; other < i; other++) scan += other;
    bool third = i % 3 == 0;
    const Result &r = out[i];
    bool right = r.tile_sum == base * 8 + 28 && r.tile_scan == scan &&
                 r.shuffled == (i % 8 + 3 < 8 ? i + 3 : i) &&
                 r.coalesced_rank == (third ? rank : -1) &&
                 r.coalesced_size == (third ? thirds : -1) && r.label_size == fives &&
                 r.label_max == highest && r.binary_size == (i % 32 < 10 ? 10 : 22);
    if (!right) return fprintf(stderr, "thread %d is wrong\n", i), 1;
  }
  printf("64 threads formed groups\n");
  return 0;
}
