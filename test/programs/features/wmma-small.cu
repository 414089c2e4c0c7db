// Warp matrix multiplication of 4-bit integers and of single bits.
#include <cstdint>

#include <mma.h>

#include "../check.h"

using namespace nvcuda;
using namespace nvcuda::wmma::experimental;

__global__ void nibbles(const uint32_t *a, const uint32_t *b, int *d) {
  wmma::fragment<wmma::matrix_a, 8, 8, 32, precision::s4, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 32, precision::s4, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 32, int> fc;
  wmma::load_matrix_sync(fa, a, 32);
  wmma::load_matrix_sync(fb, b, 32);
  wmma::fill_fragment(fc, 1000);
  wmma::mma_sync(fc, fa, fb, fc);
  wmma::store_matrix_sync(d, fc, 8, wmma::mem_row_major);
}

__global__ void bits(const uint32_t *a, const uint32_t *b, int *both, int *different) {
  wmma::fragment<wmma::matrix_a, 8, 8, 128, precision::b1, wmma::row_major> fa;
  wmma::fragment<wmma::matrix_b, 8, 8, 128, precision::b1, wmma::col_major> fb;
  wmma::fragment<wmma::accumulator, 8, 8, 128, int> fc;
  wmma::load_matrix_sync(fa, a, 128);
  wmma::load_matrix_sync(fb, b, 128);
  wmma::fill_fragment(fc, 0);
  wmma::bmma_sync(fc, fa, fb, fc, bmmaBitOpXOR, bmmaAccumulateOpPOPC);
  wmma::store_matrix_sync(different, fc, 8, wmma::mem_row_major);
  wmma::fill_fragment(fc, 0);
  wmma::bmma_sync(fc, fa, fb, fc, bmmaBitOpAND, bmmaAccumulateOpPOPC);
  wmma::store_matrix_sync(both, fc, 8, wmma::mem_row_major);
}

static int nibble(const uint32_t *words, int row, int k) {
  int value = words[row * 4 + k / 8] >> k % 8 * 4 & 15;
  return value > 7 ? value - 16 : value;
}

int main() {
  uint32_t *a, *b;
  int *d, *both, *different;
  CHECK(cudaMallocManaged(&a, 128));
  CHECK(cudaMallocManaged(&b, 128));
  CHECK(cudaMallocManaged(&d, 256));
  CHECK(cudaMallocManaged(&both, 256));
  CHECK(cudaMallocManaged(&different, 256));
  for (uint32_t i = 0; i < 32; i++) {
    a[i] = (i + 1) * 2654435761u;
    b[i] = (i + 77) * 2246822519u;
  }
  nibbles<<<1, 32>>>(a, b, d);
  bits<<<1, 32>>>(a, b, both, different);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  for (int m = 0; m < 8; m++)
    for (int n = 0; n < 8; n++) {
      int sum = 1000, ands = 0, xors = 0;
      for (int k = 0; k < 32; k++) sum += nibble(a, m, k) * nibble(b, n, k);
      for (int k = 0; k < 4; k++) {
        ands += __builtin_popcount(a[m * 4 + k] & b[n * 4 + k]);
        xors += __builtin_popcount(a[m * 4 + k] ^ b[n * 4 + k]);
      }
      if (d[m * 8 + n] != sum || both[m * 8 + n] != ands || different[m * 8 + n] != xors) {
        fprintf(stderr, "(%d, %d): %d %d %d instead of %d %d %d\n", m, n, d[m * 8 + n],
                both[m * 8 + n], different[m * 8 + n], sum, ands, xors);
        return 1;
      }
    }
  printf("4-bit products: right\n");
  printf("bits that both have, and that differ: right\n");
}
