// Matrices of registers to shared memory and turned over: stmatrix, movmatrix, ldmatrix.
// flags: -gencode=arch=compute_90,code=compute_90
#include <cstdint>

#include "../check.h"

// Lane l has the elements 2 * l and 2 * l + 1 of each 8 x 8 matrix.
__global__ void moves(uint16_t *stored, uint16_t *turned, uint16_t *loaded) {
#if __CUDA_ARCH__ >= 900
  __shared__ alignas(16) uint16_t rows[16][16];  // four matrices: two beside, two below
  uint32_t lane = threadIdx.x, value[4], back[4];
  for (uint32_t m = 0; m < 4; m++) value[m] = (lane * 2 + m * 64) | (lane * 2 + 1 + m * 64) << 16;
  auto at = static_cast<uint32_t>(
      __cvta_generic_to_shared(&rows[lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8]));
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1,%2,%3,%4};" ::"r"(at),
               "r"(value[0]), "r"(value[1]), "r"(value[2]), "r"(value[3])
               : "memory");
  __syncwarp();
  for (uint32_t i = lane; i < 256; i += 32) stored[i] = rows[i / 16][i % 16];
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(back[0]) : "r"(value[0]));
  turned[lane * 2] = back[0] & 0xffff;
  turned[lane * 2 + 1] = back[0] >> 16;
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
               : "=r"(back[0]), "=r"(back[1]), "=r"(back[2]), "=r"(back[3])
               : "r"(at)
               : "memory");
  for (uint32_t m = 0; m < 4; m++) {
    loaded[m * 64 + lane * 2] = back[m] & 0xffff;
    loaded[m * 64 + lane * 2 + 1] = back[m] >> 16;
  }
#endif
}

int main() {
  uint16_t *stored, *turned, *loaded;
  CHECK(cudaMallocManaged(&stored, 512));
  CHECK(cudaMallocManaged(&turned, 128));
  CHECK(cudaMallocManaged(&loaded, 512));
  moves<<<1, 32>>>(stored, turned, loaded);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  int wrong = 0;
  for (int r = 0; r < 16; r++)
    for (int c = 0; c < 16; c++) {
      int matrix = r / 8 * 2 + c / 8, row = r % 8, column = c % 8;
      wrong += stored[r * 16 + c] != matrix * 64 + row * 8 + column;
      wrong += loaded[matrix * 64 + column * 8 + row] != matrix * 64 + row * 8 + column;
      if (matrix == 0) wrong += turned[column * 8 + row] != row * 8 + column;
    }
  if (wrong) {
    fprintf(stderr, "%d elements are in the wrong place\n", wrong);
    return 1;
  }
  printf("stored by rows, turned over, loaded by columns: right\n");
}
