// A matrix product as libraries write it: tiles in shared memory, ldmatrix, mma in PTX.
#include <cmath>
#include <cstdint>
#include <vector>

#include <cuda_fp16.h>

#include "../check.h"

constexpr int kSize = 128, kTile = 64, kDeep = 32, kPad = 8;

__device__ uint32_t shared_address(const void *p) {
  return static_cast<uint32_t>(__cvta_generic_to_shared(p));
}

// Four warps make a tile of 64 x 64: each 32 x 32 of it. A and C by rows, B by rows, too: its
// fragments are loaded transposed.
__global__ void gemm(const half *a, const half *b, float *c) {
  __shared__ half tile_a[kTile][kDeep + kPad], tile_b[kDeep][kTile + kPad];
  int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  int warp_row = warp / 2 * 32, warp_column = warp % 2 * 32;
  float sum[2][4][4] = {};
  for (int deep = 0; deep < kSize; deep += kDeep) {
    for (int i = threadIdx.x; i < kTile * kDeep; i += 128) {
      tile_a[i / kDeep][i % kDeep] = a[(row + i / kDeep) * kSize + deep + i % kDeep];
      tile_b[i / kTile][i % kTile] = b[(deep + i / kTile) * kSize + column + i % kTile];
    }
    __syncthreads();
    for (int k = 0; k < kDeep; k += 16) {
      uint32_t fa[2][4], fb[4][2];
      for (int m = 0; m < 2; m++) {
        uint32_t at = shared_address(&tile_a[warp_row + m * 16 + lane % 16][k + lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fa[m][0]), "=r"(fa[m][1]), "=r"(fa[m][2]), "=r"(fa[m][3])
                     : "r"(at));
      }
      for (int n = 0; n < 4; n += 2) {
        uint32_t at = shared_address(&tile_b[k + lane % 16][warp_column + n * 8 + lane / 16 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
                     : "=r"(fb[n][0]), "=r"(fb[n][1]), "=r"(fb[n + 1][0]), "=r"(fb[n + 1][1])
                     : "r"(at));
      }
      for (int m = 0; m < 2; m++)
        for (int n = 0; n < 4; n++)
          asm volatile(
              "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
              "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
              : "+f"(sum[m][n][0]), "+f"(sum[m][n][1]), "+f"(sum[m][n][2]), "+f"(sum[m][n][3])
              : "r"(fa[m][0]), "r"(fa[m][1]), "r"(fa[m][2]), "r"(fa[m][3]), "r"(fb[n][0]),
                "r"(fb[n][1]));
    }
    __syncthreads();
  }
  for (int m = 0; m < 2; m++)
    for (int n = 0; n < 4; n++)
      for (int i = 0; i < 4; i++)
        c[(row + warp_row + m * 16 + lane / 4 + i / 2 * 8) * kSize + column + warp_column + n * 8 +
          lane % 4 * 2 + i % 2] = sum[m][n][i];
}

int main() {
  half *a, *b;
  float *c;
  CHECK(cudaMallocManaged(&a, kSize * kSize * sizeof *a));
  CHECK(cudaMallocManaged(&b, kSize * kSize * sizeof *b));
  CHECK(cudaMallocManaged(&c, kSize * kSize * sizeof *c));
  for (int i = 0; i < kSize * kSize; i++) {
    a[i] = half(0.125f * (i * 31 % 41 - 20));
    b[i] = half(0.5f * (i * 17 % 37 - 18));
  }
  gemm<<<dim3(kSize / kTile, kSize / kTile), 128>>>(a, b, c);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  std::vector<float> fa(a, a + kSize * kSize), fb(b, b + kSize * kSize);
  for (int m = 0; m < kSize; m++)
    for (int n = 0; n < kSize; n++) {
      float sum = 0;  // exact: sixteenths, far below 2^20
      for (int k = 0; k < kSize; k++) sum += fa[m * kSize + k] * fb[k * kSize + n];
      if (c[m * kSize + n] != sum) {
        fprintf(stderr, "(%d, %d) is %g instead of %g\n", m, n, c[m * kSize + n], sum);
        return 1;
      }
    }
  printf("a product of two %d x %d matrices: right\n", kSize, kSize);
}
