// Warp matrix multiplication of half precision: three shapes, both layouts, both accumulators.
#include <cmath>
#include <vector>

#include <cuda_fp16.h>
#include <mma.h>

#include "../check.h"

using namespace nvcuda;

template <int M, int N, int K, class LayoutA, class LayoutB, class Accumulator>
__global__ void product(const half *a, const half *b, const Accumulator *c, Accumulator *d,
                        wmma::layout_t layout) {
  bool row_a = std::is_same<LayoutA, wmma::row_major>::value;
  bool row_b = std::is_same<LayoutB, wmma::row_major>::value;
  __shared__ alignas(32) half tile[N * K];
  for (unsigned i = threadIdx.x; i < N * K; i += 32) tile[i] = b[i];
  __syncwarp();
  wmma::fragment<wmma::matrix_a, M, N, K, half, LayoutA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, half, LayoutB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Accumulator> fc;
  wmma::load_matrix_sync(fa, a, row_a ? K : M);
  wmma::load_matrix_sync(fb, tile, row_b ? N : K);
  wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
  // Element by element, without knowing which is where
  for (unsigned i = 0; i < fc.num_elements; i++) fc.x[i] = fc.x[i] * Accumulator(2.0f);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, layout == wmma::mem_row_major ? N : M, layout);
}

template <int M, int N, int K, class LayoutA, class LayoutB, class Accumulator>
int check(const char *name) {
  bool row_a = std::is_same<LayoutA, wmma::row_major>::value;
  bool row_b = std::is_same<LayoutB, wmma::row_major>::value;
  half *a, *b;
  Accumulator *c, *d;
  CHECK(cudaMallocManaged(&a, M * K * sizeof *a));
  CHECK(cudaMallocManaged(&b, K * N * sizeof *b));
  CHECK(cudaMallocManaged(&c, M * N * sizeof *c));
  CHECK(cudaMallocManaged(&d, M * N * sizeof *d));
  auto at_a = [&](int m, int k) -> half & { return a[row_a ? m * K + k : k * M + m]; };
  auto at_b = [&](int k, int n) -> half & { return b[row_b ? k * N + n : n * K + k]; };
  for (int m = 0; m < M; m++)
    for (int k = 0; k < K; k++) at_a(m, k) = half((m * 3 + k * 5) % 17 - 8);
  for (int k = 0; k < K; k++)
    for (int n = 0; n < N; n++) at_b(k, n) = half(0.25f * ((k * 7 + n * 2) % 13 - 6));
  for (int i = 0; i < M * N; i++) c[i] = Accumulator(float(i % 11) - 5);
  for (auto layout : {wmma::mem_row_major, wmma::mem_col_major}) {
    product<M, N, K, LayoutA, LayoutB><<<1, 32>>>(a, b, c, d, layout);
    CHECK(cudaGetLastError());
    CHECK(cudaDeviceSynchronize());
    for (int m = 0; m < M; m++)
      for (int n = 0; n < N; n++) {
        float sum = 2 * float(c[m * N + n]);  // exact: small integers and quarters
        for (int k = 0; k < K; k++) sum += float(at_a(m, k)) * float(at_b(k, n));
        float got = float(d[layout == wmma::mem_row_major ? m * N + n : n * M + m]);
        if (got != sum) {
          fprintf(stderr, "%s: (%d, %d) is %g instead of %g\n", name, m, n, got, sum);
          return 1;
        }
      }
  }
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(c));
  CHECK(cudaFree(d));
  printf("%s: right\n", name);
  return 0;
}

int main() {
  using Row = wmma::row_major;
  using Column = wmma::col_major;
  return check<16, 16, 16, Row, Column, float>("16x16x16 row column float") |
         check<16, 16, 16, Row, Row, float>("16x16x16 row row float") |
         check<16, 16, 16, Column, Row, half>("16x16x16 column row half") |
         check<16, 16, 16, Column, Column, half>("16x16x16 column column half") |
         check<32, 8, 16, Row, Column, float>("32x8x16 row column float") |
         check<32, 8, 16, Column, Row, half>("32x8x16 column row half") |
         check<8, 32, 16, Row, Row, float>("8x32x16 row row float") |
         check<8, 32, 16, Column, Column, half>("8x32x16 column column half");
}
