// The kernels, as users write them.
#pragma once

#include <cuda_fp16.h>
#include <mma.h>

#include <cstdint>

__global__ void vector_add(const float *a, const float *b, float *out, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < n) out[i] = a[i] + b[i];
}

// 128 x 128 of the result per block of 256 threads, 8 x 8 per thread.
__global__ void sgemm(const float *a, const float *b, float *out, int n) {
  constexpr int kTile = 128, kDepth = 8;
  __shared__ float left[kDepth][kTile], right[kDepth][kTile];
  const int row = blockIdx.y * kTile, column = blockIdx.x * kTile;
  const int ty = threadIdx.x / 16, tx = threadIdx.x % 16;
  float sum[8][8] = {};
  for (int k = 0; k < n; k += kDepth) {
    const int i = threadIdx.x / 2, j = threadIdx.x % 2 * 4;
    const float4 from_a = *reinterpret_cast<const float4 *>(a + (row + i) * n + k + j);
    left[j][i] = from_a.x;
    left[j + 1][i] = from_a.y;
    left[j + 2][i] = from_a.z;
    left[j + 3][i] = from_a.w;
    const int r = threadIdx.x / 32, c = threadIdx.x % 32 * 4;
    *reinterpret_cast<float4 *>(&right[r][c]) =
        *reinterpret_cast<const float4 *>(b + (k + r) * n + column + c);
    __syncthreads();
#pragma unroll
    for (int d = 0; d < kDepth; d++) {
      float x[8], y[8];
#pragma unroll
      for (int u = 0; u < 8; u++) x[u] = left[d][ty * 8 + u];
#pragma unroll
      for (int u = 0; u < 8; u++) y[u] = right[d][tx * 8 + u];
#pragma unroll
      for (int u = 0; u < 8; u++)
#pragma unroll
        for (int v = 0; v < 8; v++) sum[u][v] += x[u] * y[v];
    }
    __syncthreads();
  }
  for (int u = 0; u < 8; u++)
    for (int v = 0; v < 8; v++) out[(row + ty * 8 + u) * n + column + tx * 8 + v] = sum[u][v];
}

__global__ void reduce(const float *in, float *out, int n) {
  __shared__ float part[256];
  float sum = 0;
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
    sum += in[i];
  part[threadIdx.x] = sum;
  __syncthreads();
  for (int step = blockDim.x / 2; step; step /= 2) {
    if (threadIdx.x < step) part[threadIdx.x] += part[threadIdx.x + step];
    __syncthreads();
  }
  if (threadIdx.x == 0) atomicAdd(out, part[0]);
}

__global__ void histogram(const uchar4 *in, uint32_t *bins, int n) {
  __shared__ uint32_t own[256];
  own[threadIdx.x] = 0;
  __syncthreads();
  for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) {
    const uchar4 four = in[i];
    atomicAdd(&own[four.x], 1);
    atomicAdd(&own[four.y], 1);
    atomicAdd(&own[four.z], 1);
    atomicAdd(&own[four.w], 1);
  }
  __syncthreads();
  atomicAdd(&bins[threadIdx.x], own[threadIdx.x]);
}

__global__ void transpose(const float *in, float *out, int n) {
  __shared__ float tile[32][33];
  int x = blockIdx.x * 32 + threadIdx.x, y = blockIdx.y * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) tile[threadIdx.y + j][threadIdx.x] = in[(y + j) * n + x];
  __syncthreads();
  x = blockIdx.y * 32 + threadIdx.x;
  y = blockIdx.x * 32 + threadIdx.y;
  for (int j = 0; j < 32; j += 8) out[(y + j) * n + x] = tile[threadIdx.x][threadIdx.y + j];
}

__global__ void stencil(const float *in, float *out, int n) {
  int j = blockIdx.x * blockDim.x + threadIdx.x, i = blockIdx.y * blockDim.y + threadIdx.y;
  if (i < 1 || j < 1 || i >= n - 1 || j >= n - 1) return;
  const float *at = in + i * n + j;
  out[i * n + j] = 0.5f * at[0] + 0.125f * (at[-1] + at[1] + at[-n] + at[n]);
}

__device__ float normal(float x) { return 0.5f * erfcf(-x * 0.70710678f); }

__global__ void black_scholes(const float *price, const float *strike, const float *years,
                              float *call, float *put, int n) {
  const float rate = 0.02f, volatility = 0.3f;
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float root = sqrtf(years[i]);
  float d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) /
             (volatility * root);
  float d2 = d1 - volatility * root;
  float discounted = strike[i] * expf(-rate * years[i]);
  call[i] = price[i] * normal(d1) - discounted * normal(d2);
  put[i] = discounted * normal(-d2) - price[i] * normal(-d1);
}

__global__ void divergent(const uint32_t *in, uint32_t *steps, int n) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  uint32_t value = in[i], count = 0;
  while (value != 1) {
    if (value & 1)
      value = 3 * value + 1;
    else
      value /= 2;
    count++;
  }
  steps[i] = count;
}

// 64 x 64 of the result per block of four warps, through shared memory.
__global__ void half_gemm(const half *a, const half *b, float *out, int n) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) half left[64][16 + 8], right[16][64 + 8];
  const int warp = threadIdx.x / 32;
  fragment<accumulator, 16, 16, 16, float> sum[4];
  for (auto &one : sum) fill_fragment(one, 0.0f);
  for (int k = 0; k < n; k += 16) {
    const int i = threadIdx.x / 2, j = threadIdx.x % 2 * 8;
    *reinterpret_cast<uint4 *>(&left[i][j]) =
        *reinterpret_cast<const uint4 *>(a + (blockIdx.y * 64 + i) * n + k + j);
    const int r = threadIdx.x / 8, c = threadIdx.x % 8 * 8;
    *reinterpret_cast<uint4 *>(&right[r][c]) =
        *reinterpret_cast<const uint4 *>(b + (k + r) * n + blockIdx.x * 64 + c);
    __syncthreads();
    fragment<matrix_a, 16, 16, 16, half, row_major> x;
    load_matrix_sync(x, &left[warp * 16][0], 24);
    for (int v = 0; v < 4; v++) {
      fragment<matrix_b, 16, 16, 16, half, row_major> y;
      load_matrix_sync(y, &right[0][v * 16], 72);
      mma_sync(sum[v], x, y, sum[v]);
    }
    __syncthreads();
  }
  for (int v = 0; v < 4; v++)
    store_matrix_sync(out + (blockIdx.y * 64 + warp * 16) * n + blockIdx.x * 64 + v * 16, sum[v], n,
                      mem_row_major);
}

__global__ void nothing() {}
__global__ void little(uint32_t *out) { out[threadIdx.x] = threadIdx.x * 3; }
__global__ void tiny(uint32_t *out) { out[blockIdx.x * 32 + threadIdx.x] = blockIdx.x; }
