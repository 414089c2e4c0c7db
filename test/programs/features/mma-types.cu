// mma of the other types: bfloat16, tf32, double, 8-bit integers and 8-bit floats.
// flags: -gencode=arch=compute_89,code=compute_89
#include <cmath>
#include <cstdint>

#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "../check.h"

// Each kernel multiplies the 16 x k matrix of `a` (by rows) with the k x 8 matrix of `b` (by
// columns) and adds the result to the 16 x 8 matrix in `c`. A lane's row and its place in it:
__device__ int group() { return threadIdx.x / 4; }
__device__ int quarter() { return threadIdx.x % 4; }

template <class T>
__device__ uint32_t word(const T *matrix, int depth, int row, int first) {
  return *reinterpret_cast<const uint32_t *>(matrix + row * depth + first);
}

// Bytes of one row that a lane has side by side: 4. Depth: of the matrix, in elements.
template <class T, class C, int depth>
struct Fragments {
  static constexpr int step = 4 / sizeof(T);
  uint32_t a[4], b[2];
  C c[4];
  __device__ Fragments(const T *ma, const T *mb, const C *mc) {
    for (int i = 0; i < 4; i++)
      a[i] = word(ma, depth, group() + i % 2 * 8, i / 2 * depth / 2 + quarter() * step);
    for (int i = 0; i < 2; i++) b[i] = word(mb, depth, group(), i * depth / 2 + quarter() * step);
    for (int i = 0; i < 4; i++) c[i] = mc[(group() + i / 2 * 8) * 8 + quarter() * 2 + i % 2];
  }
  __device__ void store(C *mc) const {
    for (int i = 0; i < 4; i++) mc[(group() + i / 2 * 8) * 8 + quarter() * 2 + i % 2] = c[i];
  }
};

#define MMA(text, kind)                                                                 \
  asm volatile("mma.sync.aligned." text                                                 \
               " {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "                               \
               "{%0,%1,%2,%3};"                                                         \
               : "+" kind(f.c[0]), "+" kind(f.c[1]), "+" kind(f.c[2]), "+" kind(f.c[3]) \
               : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]))

__global__ void brain(const __nv_bfloat16 *a, const __nv_bfloat16 *b, float *c) {
  Fragments<__nv_bfloat16, float, 16> f(a, b, c);
  MMA("m16n8k16.row.col.f32.bf16.bf16.f32", "f");
  f.store(c);
}
__global__ void tf32(const float *a, const float *b, float *c) {
  Fragments<float, float, 8> f(a, b, c);
  MMA("m16n8k8.row.col.f32.tf32.tf32.f32", "f");
  f.store(c);
}
__global__ void bytes(const int8_t *a, const int8_t *b, int *c) {
  Fragments<int8_t, int, 32> f(a, b, c);
  MMA("m16n8k32.row.col.s32.s8.s8.s32", "r");
  f.store(c);
}
__global__ void eights(const __nv_fp8_e4m3 *a, const __nv_fp8_e4m3 *b, float *c) {
#if __CUDA_ARCH__ >= 890
  Fragments<__nv_fp8_e4m3, float, 32> f(a, b, c);
  MMA("m16n8k32.row.col.f32.e4m3.e4m3.f32", "f");
  f.store(c);
#endif
}
__global__ void doubles(const double *a, const double *b, double *c) {
  for (int half = 0; half < 2; half++) {
    int row = half * 8 + group(), column = quarter() * 2;
    double *to = c + row * 8 + column;
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
                 : "+d"(to[0]), "+d"(to[1])
                 : "d"(a[row * 4 + quarter()]), "d"(b[group() * 4 + quarter()]));
  }
}

template <class T, class C>
int check(const char *name, int depth, void (*kernel)(const T *, const T *, C *)) {
  T *a, *b;
  C *c;
  CHECK(cudaMallocManaged(&a, 16 * depth * sizeof *a));
  CHECK(cudaMallocManaged(&b, 8 * depth * sizeof *b));
  CHECK(cudaMallocManaged(&c, 16 * 8 * sizeof *c));
  for (int i = 0; i < 16 * depth; i++) a[i] = T(float(i * 3 % 15 - 7));
  for (int i = 0; i < 8 * depth; i++) b[i] = T(float(i * 5 % 13 - 6));
  for (int i = 0; i < 16 * 8; i++) c[i] = C(i);
  kernel<<<1, 32>>>(a, b, c);
  CHECK(cudaGetLastError());
  CHECK(cudaDeviceSynchronize());
  for (int m = 0; m < 16; m++)
    for (int n = 0; n < 8; n++) {
      double sum = m * 8 + n;
      for (int k = 0; k < depth; k++)
        sum += double(float(a[m * depth + k])) * float(b[n * depth + k]);
      if (double(c[m * 8 + n]) != sum) {
        fprintf(stderr, "%s: (%d, %d) is %g instead of %g\n", name, m, n, double(c[m * 8 + n]),
                sum);
        return 1;
      }
    }
  CHECK(cudaFree(a));
  CHECK(cudaFree(b));
  CHECK(cudaFree(c));
  printf("%s: right\n", name);
  return 0;
}

int main() {
  return check("bfloat16", 16, brain) | check("tf32", 8, tf32) |
         check("8-bit integers", 32, bytes) | check("8-bit floats", 32, eights) |
         check("double", 4, doubles);
}
