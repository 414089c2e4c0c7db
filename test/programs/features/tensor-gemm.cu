// A matrix product by roles: one warp loads tiles by tensor maps, four multiply what has come.
// flags: -gencode arch=compute_90,code=compute_90 -lcuda
#include <cmath>
#include <vector>

#include <cuda_fp16.h>

#include "../check.h"
#include "../check_driver.h"
#include "tensor_copies.h"

constexpr int kSize = 192, kTile = 64, kStages = 2, kConsumers = 128;
constexpr unsigned kTileBytes = kTile * kTile * sizeof(half);

// An element of a tile whose rows of 128 bytes are swizzled.
__device__ half at(const half *tile, int row, int column) {
  return tile[row * kTile + ((column / 8) ^ (row % 8)) * 8 + column % 8];
}
__device__ uint32_t pair(half low, half high) {
  return __half_as_ushort(low) | static_cast<uint32_t>(__half_as_ushort(high)) << 16;
}

// Each of four warps makes 16 rows of the tile.
__device__ void multiply(const half *a, const half *b, int warp, int lane, float sum[8][4]) {
  const int row = warp * 16 + lane / 4, deep = lane % 4 * 2;
  for (int k = deep; k < kTile; k += 16) {
    uint32_t fa[4];
    for (int i = 0; i < 4; i++) {
      const int r = row + i % 2 * 8, c = k + i / 2 * 8;
      fa[i] = pair(at(a, r, c), at(a, r, c + 1));
    }
    for (int n = 0; n < 8; n++) {
      uint32_t fb[2];
      for (int i = 0; i < 2; i++) {
        const int r = k + i * 8, c = n * 8 + lane / 4;
        fb[i] = pair(at(b, r, c), at(b, r + 1, c));
      }
      asm volatile(
          "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
          "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
          : "+f"(sum[n][0]), "+f"(sum[n][1]), "+f"(sum[n][2]), "+f"(sum[n][3])
          : "r"(fa[0]), "r"(fa[1]), "r"(fa[2]), "r"(fa[3]), "r"(fb[0]), "r"(fb[1]));
    }
  }
}

__global__ void gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b,
                     const __grid_constant__ CUtensorMap c) {
  __shared__ alignas(1024) half tiles[kStages][2][kTile * kTile];
  __shared__ uint64_t full[kStages], empty[kStages];
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], kConsumers);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  constexpr int kSteps = kSize / kTile;
  if (threadIdx.x < 32) {
    if (threadIdx.x == 0) {
      asm volatile("prefetch.tensormap [%0];" ::"l"(&a) : "memory");
      for (int step = 0; step < kSteps; step++) {
        const int stage = step % kStages, turn = step / kStages;
        if (turn) barrier_wait(&empty[stage], (turn - 1) % 2);
        barrier_expect(&full[stage], 2 * kTileBytes);
        load_2d(tiles[stage][0], a, step * kTile, row, &full[stage]);
        load_2d(tiles[stage][1], b, column, step * kTile, &full[stage]);
      }
    }
    return;
  }
  const int warp = threadIdx.x / 32 - 1, lane = threadIdx.x % 32;
  float sum[8][4] = {};
  for (int step = 0; step < kSteps; step++) {
    const int stage = step % kStages;
    barrier_wait(&full[stage], step / kStages % 2);
    multiply(tiles[stage][0], tiles[stage][1], warp, lane, sum);
    barrier_arrive(&empty[stage]);
  }
  // All have read all tiles: what they make goes there, and from there to memory.
  asm volatile("bar.sync 1, 128;" ::: "memory");
  auto *out = reinterpret_cast<float *>(tiles);
  for (int n = 0; n < 8; n++)
    for (int i = 0; i < 4; i++)
      out[(warp * 16 + lane / 4 + i / 2 * 8) * kTile + n * 8 + lane % 4 * 2 + i % 2] = sum[n][i];
  publish_for_copies();
  asm volatile("bar.sync 1, 128;" ::: "memory");
  if (threadIdx.x == 32) {
    store_2d(c, column, row, out);
    wait_for_stores();
  }
}

CUtensorMap describe(void *matrix, CUtensorMapDataType type, size_t element,
                     CUtensorMapSwizzle swizzle) {
  CUtensorMap map;
  const cuuint64_t sizes[] = {kSize, kSize}, stride = kSize * element;
  const cuuint32_t box[] = {kTile, kTile}, steps[] = {1, 1};
  DRIVER(cuTensorMapEncodeTiled(
      &map, type, 2, matrix, sizes, &stride, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
      CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

int main() {
  std::vector<half> a(kSize * kSize), b(a.size());
  std::vector<float> c(a.size());
  for (size_t i = 0; i < a.size(); i++) {
    a[i] = __float2half(static_cast<float>(static_cast<int>(i * 7 % 13) - 6) / 4);
    b[i] = __float2half(static_cast<float>(static_cast<int>(i * 5 % 11) - 5) / 8);
  }
  half *da, *db;
  float *dc;
  CHECK(cudaMalloc(&da, a.size() * sizeof(half)));
  CHECK(cudaMalloc(&db, b.size() * sizeof(half)));
  CHECK(cudaMalloc(&dc, c.size() * sizeof(float)));
  CHECK(cudaMemcpy(da, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice));
  const auto halves = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  gemm<<<dim3(kSize / kTile, kSize / kTile), 32 + kConsumers>>>(
      describe(da, halves, sizeof(half), CU_TENSOR_MAP_SWIZZLE_128B),
      describe(db, halves, sizeof(half), CU_TENSOR_MAP_SWIZZLE_128B),
      describe(dc, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, sizeof(float), CU_TENSOR_MAP_SWIZZLE_NONE));
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
  double sum = 0;
  for (int y = 0; y < kSize; y++)
    for (int x = 0; x < kSize; x++) {
      double wanted = 0;
      for (int k = 0; k < kSize; k++)
        wanted += __half2float(a[y * kSize + k]) * __half2float(b[k * kSize + x]);
      const double got = c[y * kSize + x];
      if (std::fabs(got - wanted) > 1e-3)
        return fprintf(stderr, "(%d, %d): %g, not %g\n", y, x, got, wanted), 1;
      sum += std::fabs(got);
    }
  printf("%d x %d, together %.3f\n", kSize, kSize, sum);
  return 0;
}
