// Matrix products by warp groups: tiles come by tensor maps and are multiplied where they lie; with
// A in registers; of bytes and of 8-bit floating point.
// flags: -gencode arch=compute_90a,code=compute_90a -lcuda
#include <vector>

#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include "../check.h"
#include "../check_driver.h"
#include "tensor_copies.h"

constexpr int kSize = 192, kTile = 64, kStages = 2, kGroup = 128;
constexpr unsigned kTileBytes = kTile * kTile * sizeof(half);

// A descriptor of a matrix; swizzle: 0 none, 1 of 128 bytes.
__device__ uint64_t matrix(const void *at, unsigned leading, unsigned stride, unsigned swizzle) {
  return (shared_address(at) & 0x3ffff) >> 4 | static_cast<uint64_t>(leading >> 4) << 16 |
         static_cast<uint64_t>(stride >> 4) << 32 | static_cast<uint64_t>(swizzle) << 62;
}
__device__ void begin_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ void end_products() {
  asm volatile("wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;" ::: "memory");
}

#define EIGHT(d, i)                                                                           \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), \
      "+f"(d[i + 6]), "+f"(d[i + 7])

// 64 x 64: A's rows lie along k, B's along n.
__device__ void multiply(float d[32], uint64_t a, uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, "
      "%20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 1;"
      : EIGHT(d, 0), EIGHT(d, 8), EIGHT(d, 16), EIGHT(d, 24)
      : "l"(a), "l"(b));
}
__device__ int row_of(int thread, int i) {
  return thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8;
}
__device__ int column_of(int thread, int i) { return i / 4 * 8 + thread % 4 * 2 + i % 2; }

// One warp group multiplies what another one fetches.
__global__ void __launch_bounds__(2 * kGroup, 1)
    gemm(const __grid_constant__ CUtensorMap a, const __grid_constant__ CUtensorMap b, float *c) {
  __shared__ alignas(1024) half tiles[kStages][2][kTile * kTile];
  __shared__ uint64_t full[kStages], empty[kStages];
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  if (threadIdx.x == 0) {
    for (int i = 0; i < kStages; i++) {
      barrier_init(&full[i], 1);
      barrier_init(&empty[i], kGroup);
    }
    asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
  }
  __syncthreads();
  constexpr int kSteps = kSize / kTile;
  if (threadIdx.x >= kGroup) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == kGroup) {
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
  asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
  float d[32] = {};
  for (int step = 0; step < kSteps; step++) {
    const int stage = step % kStages;
    barrier_wait(&full[stage], step / kStages % 2);
    begin_products();
    for (int k = 0; k < kTile / 16; k++)
      multiply(d, matrix(tiles[stage][0] + k * 16, 0, 1024, 1),
               matrix(tiles[stage][1] + k * 16 * kTile, 0, 1024, 1));
    end_products();
    barrier_arrive(&empty[stage]);
  }
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = 0; i < 32; i++)
    c[(row + row_of(thread, i)) * kSize + column + column_of(thread, i)] = d[i];
}

CUtensorMap describe(void *of) {
  CUtensorMap map;
  const cuuint64_t sizes[] = {kSize, kSize}, stride = kSize * sizeof(half);
  const cuuint32_t box[] = {kTile, kTile}, steps[] = {1, 1};
  DRIVER(cuTensorMapEncodeTiled(&map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, of, sizes, &stride, box,
                                steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                                CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

enum Kind { kRegisters, kBytes, kSmallFloats };

// 64 x 8 of 32 bytes along k. In memory all is row by row, B column by column; in shared memory
// eight rows of 16 bytes lie together.
__global__ void one_product(Kind kind, const uint4 *a, const uint4 *b, int *c) {
  __shared__ alignas(128) uint4 blocks_a[128], blocks_b[16];
  const int t = static_cast<int>(threadIdx.x);
  const int place = t / 16 * 16 + t % 2 * 8 + t % 16 / 2;
  blocks_a[place] = a[t];
  if (t < 16) blocks_b[place] = b[t];
  publish_for_copies();
  __syncthreads();
  const uint64_t da = matrix(blocks_a, 128, 256, 0), db = matrix(blocks_b, 128, 256, 0);
  // The registers of A: two halves of a row and of the one eight below, then 16 bytes further.
  unsigned fragment[4];
  const auto *words = reinterpret_cast<const unsigned *>(a);
  for (int i = 0; i < 4; i++)
    fragment[i] = words[(t / 32 * 16 + t % 32 / 4 + i % 2 * 8) * 8 + i / 2 * 4 + t % 4];
  float d[4] = {100, 200, 300, 400};
  int n[4] = {100, 200, 300, 400};
  if (kind == kRegisters) {
    begin_products();
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, {%4, %5, %6, %7}, %8, "
        "1, -1, 1, 0;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(fragment[0]), "r"(fragment[1]), "r"(fragment[2]), "r"(fragment[3]), "l"(db));
    end_products();
  }
  if (kind == kBytes) {
    begin_products();
    asm volatile("wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.u8 {%0, %1, %2, %3}, %4, %5, 1;"
                 : "+r"(n[0]), "+r"(n[1]), "+r"(n[2]), "+r"(n[3])
                 : "l"(da), "l"(db));
    end_products();
  }
  if (kind == kSmallFloats) {
    begin_products();
    asm volatile(
        "wgmma.mma_async.sync.aligned.m64n8k32.f32.e4m3.e5m2 {%0, %1, %2, %3}, %4, %5, 0, 1, 1;"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "l"(da), "l"(db));
    end_products();
  }
  for (int i = 0; i < 4; i++)
    c[row_of(t, i) * 8 + column_of(t, i)] = kind == kBytes ? n[i] : static_cast<int>(d[i]);
}

// Small whole numbers, so that all sums are exact.
int number(int i, int salt) { return (i * 7 + i / 13 * 3 + salt) % 9 - 4; }

void show(const char *what, Kind kind) {
  std::vector<unsigned char> a(64 * 32), b(8 * 32);
  const int depth = kind == kRegisters ? 16 : 32;
  auto put = [&](std::vector<unsigned char> &to, int i, int value, bool second) {
    if (kind == kRegisters) {
      const half h = __float2half(static_cast<float>(value));
      memcpy(&to[i * 2], &h, 2);
    } else if (kind == kBytes) {
      to[i] = static_cast<unsigned char>(value);
    } else if (second) {
      to[i] = __nv_fp8_e5m2(static_cast<float>(value)).__x;
    } else {
      to[i] = __nv_fp8_e4m3(static_cast<float>(value)).__x;
    }
  };
  auto value_b = [&](int i) { return number(i, 5) + (kind == kBytes ? 4 : 0); };
  for (int i = 0; i < 64 * depth; i++) put(a, i, number(i, 1), false);
  for (int i = 0; i < 8 * depth; i++) put(b, i, value_b(i), true);
  uint4 *da, *db;
  int *dc;
  CHECK(cudaMalloc(&da, a.size()));
  CHECK(cudaMalloc(&db, b.size()));
  CHECK(cudaMalloc(&dc, 64 * 8 * 4));
  CHECK(cudaMemcpy(da, a.data(), a.size(), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), b.size(), cudaMemcpyHostToDevice));
  one_product<<<1, kGroup>>>(kind, da, db, dc);
  std::vector<int> c(64 * 8);
  CHECK(cudaMemcpy(c.data(), dc, c.size() * 4, cudaMemcpyDeviceToHost));
  int wrong = 0;
  for (int row = 0; row < 64; row++)
    for (int column = 0; column < 8; column++) {
      // What D had: by place in the row and by half of the sixteen rows.
      int sum = kind == kSmallFloats ? 0 : (column % 2 + row / 8 % 2 * 2 + 1) * 100;
      for (int k = 0; k < depth; k++) {
        const int product = number(row * depth + k, 1) * value_b(column * depth + k);
        sum += kind == kRegisters ? -product : product;
      }
      wrong += c[row * 8 + column] != sum;
    }
  printf("%s: %s\n", what, wrong ? "wrong" : "right");
  for (void *p : {static_cast<void *>(da), static_cast<void *>(db), static_cast<void *>(dc)})
    CHECK(cudaFree(p));
}

int main() {
  std::vector<half> a(kSize * kSize), b(a.size());
  std::vector<float> c(a.size());
  for (int i = 0; i < kSize * kSize; i++) {
    a[i] = __float2half(static_cast<float>(number(i, 2)) / 4);
    b[i] = __float2half(static_cast<float>(number(i, 3)) / 8);
  }
  half *da, *db;
  float *dc;
  CHECK(cudaMalloc(&da, a.size() * sizeof(half)));
  CHECK(cudaMalloc(&db, b.size() * sizeof(half)));
  CHECK(cudaMalloc(&dc, c.size() * sizeof(float)));
  CHECK(cudaMemcpy(da, a.data(), a.size() * sizeof(half), cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b.data(), b.size() * sizeof(half), cudaMemcpyHostToDevice));
  gemm<<<dim3(kSize / kTile, kSize / kTile), 2 * kGroup>>>(describe(da), describe(db), dc);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(c.data(), dc, c.size() * sizeof(float), cudaMemcpyDeviceToHost));
  int wrong = 0;
  double total = 0;
  for (int row = 0; row < kSize; row++)
    for (int column = 0; column < kSize; column++) {
      float sum = 0;
      for (int k = 0; k < kSize; k++)
        sum += static_cast<float>(number(row * kSize + k, 2) * number(k * kSize + column, 3)) / 32;
      wrong += c[row * kSize + column] != sum;
      total += c[row * kSize + column];
    }
  printf("%d of %d elements are wrong, and all together are %g\n", wrong, kSize * kSize, total);
  show("A in registers", kRegisters);
  show("bytes", kBytes);
  show("8-bit floating point", kSmallFloats);
  return 0;
}
