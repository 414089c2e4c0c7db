// Warp matrix multiplication of bfloat16, tf32, double and 8-bit integers.
#include <cmath>

#include <cuda_bf16.h>
#include <mma.h>

#include "../check.h"

using namespace nvcuda;

// A: M x K by rows, B: K x N by columns, C and D: M x N by rows; T is how tf32 is stored, too.
template <int M, int N, int K, class Element, class T, class Accumulator>
__global__ void product(const T *a, const T *b, const Accumulator *c, Accumulator *d) {
  wmma::fragment<wmma::matrix_a, M, N, K, Element, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, Element, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, M, N, K, Accumulator> fc, sum;
  wmma::load_matrix_sync(fa, a, K);
  wmma::load_matrix_sync(fb, b, K);
  wmma::load_matrix_sync(fc, c, N, wmma::mem_row_major);
  if constexpr (std::is_same<Element, wmma::precision::tf32>::value) {
    for (int i = 0; i < fa.num_elements; i++) fa.x[i] = wmma::__float_to_tf32(fa.x[i]);
    for (int i = 0; i < fb.num_elements; i++) fb.x[i] = wmma::__float_to_tf32(fb.x[i]);
  }
  wmma::fill_fragment(sum, Accumulator(0));
  for (int times = 0; times < 3; times++) wmma::mma_sync(sum, fa, fb, sum);
  for (int i = 0; i < sum.num_elements; i++) sum.x[i] += fc.x[i];
  wmma::store_matrix_sync(d, sum, N, wmma::mem_row_major);
}

template <int M, int N, int K, class Element, class T, class Accumulator>
int check(const char *name) {
  T *a, *b;
  Accumulator *c, *d;
  CHECK(cudaMallocManaged(&a, M * K * sizeof *a));
  CHECK(cudaMallocManaged(&b, K * N * sizeof *b));
  CHECK(cudaMallocManaged(&c, M * N * sizeof *c));
  CHECK(cudaMallocManaged(&d, M * N * sizeof *d));
  // Small whole numbers: every type has them, and their sums are exact.
  for (int i = 0; i < M * K; i++) a[i] = T(float(i * 7 % 19));
  for (int i = 0; i < K * N; i++) b[i] = T(float(i * 5 % 23));
  for (int i = 0; i < M * N; i++) c[i] = Accumulator(i % 29);
  product<M, N, K, Element><<<1, 32>>>(a, b, c, d);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  for (int m = 0; m < M; m++)
    for (int n = 0; n < N; n++) {
      double sum = 0;
      for (int k = 0; k < K; k++) sum += double(float(a[m * K + k])) * double(float(b[n * K + k]));
      sum = 3 * sum + double(c[m * N + n]);
      if (double(d[m * N + n]) != sum) {
        fprintf(stderr, "%s: (%d, %d) is %g instead of %g\n", name, m, n, double(d[m * N + n]),
                sum);
        return 1;
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
  using bf16 = __nv_bfloat16;
  using tf32 = wmma::precision::tf32;
  using s8 = signed char;
  using u8 = unsigned char;
  return check<16, 16, 16, bf16, bf16, float>("bfloat16 16x16x16") |
         check<32, 8, 16, bf16, bf16, float>("bfloat16 32x8x16") |
         check<8, 32, 16, bf16, bf16, float>("bfloat16 8x32x16") |
         check<16, 16, 8, tf32, float, float>("tf32 16x16x8") |
         check<8, 8, 4, double, double, double>("double 8x8x4") |
         check<16, 16, 16, s8, s8, int>("signed char 16x16x16") |
         check<32, 8, 16, u8, u8, int>("unsigned char 32x8x16") |
         check<8, 32, 16, s8, s8, int>("signed char 8x32x16");
}
