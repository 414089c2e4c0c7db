// Arithmetic and conversion in each rounding mode, single and double, against the host's own modes.
// flags: -Xcompiler -frounding-math
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "../check.h"

constexpr int kValues = 512, kResults = 10;
const int modes[4] = {FE_TONEAREST, FE_TOWARDZERO, FE_DOWNWARD, FE_UPWARD};

template <int mode>
__device__ void one(float x, float y, double u, double v, long long n, double *r) {
  r[0] = mode == 0   ? __fadd_rn(x, y)
         : mode == 1 ? __fadd_rz(x, y)
         : mode == 2 ? __fadd_rd(x, y)
                     : __fadd_ru(x, y);
  r[1] = mode == 0   ? __fmul_rn(x, y)
         : mode == 1 ? __fmul_rz(x, y)
         : mode == 2 ? __fmul_rd(x, y)
                     : __fmul_ru(x, y);
  r[2] = mode == 0   ? __fdiv_rn(x, y)
         : mode == 1 ? __fdiv_rz(x, y)
         : mode == 2 ? __fdiv_rd(x, y)
                     : __fdiv_ru(x, y);
  r[3] = mode == 0   ? __fsqrt_rn(fabsf(x))
         : mode == 1 ? __fsqrt_rz(fabsf(x))
         : mode == 2 ? __fsqrt_rd(fabsf(x))
                     : __fsqrt_ru(fabsf(x));
  r[4] = mode == 0   ? __fmaf_rn(x, y, x)
         : mode == 1 ? __fmaf_rz(x, y, x)
         : mode == 2 ? __fmaf_rd(x, y, x)
                     : __fmaf_ru(x, y, x);
  r[5] = mode == 0   ? __dadd_rn(u, v)
         : mode == 1 ? __dadd_rz(u, v)
         : mode == 2 ? __dadd_rd(u, v)
                     : __dadd_ru(u, v);
  r[6] = mode == 0   ? __dmul_rn(u, v)
         : mode == 1 ? __dmul_rz(u, v)
         : mode == 2 ? __dmul_rd(u, v)
                     : __dmul_ru(u, v);
  r[7] = mode == 0   ? __ddiv_rn(u, v)
         : mode == 1 ? __ddiv_rz(u, v)
         : mode == 2 ? __ddiv_rd(u, v)
                     : __ddiv_ru(u, v);
  r[8] = mode == 0   ? __double2float_rn(u)
         : mode == 1 ? __double2float_rz(u)
         : mode == 2 ? __double2float_rd(u)
                     : __double2float_ru(u);
  r[9] = mode == 0   ? __ll2float_rn(n)
         : mode == 1 ? __ll2float_rz(n)
         : mode == 2 ? __ll2float_rd(n)
                     : __ll2float_ru(n);
}

__global__ void compute(const double *a, const double *b, double *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  double u = a[i], v = b[i];
  auto x = static_cast<float>(u), y = static_cast<float>(v);
  auto n = static_cast<long long>(u * 1e15);
  one<0>(x, y, u, v, n, out + (i * 4 + 0) * kResults);
  one<1>(x, y, u, v, n, out + (i * 4 + 1) * kResults);
  one<2>(x, y, u, v, n, out + (i * 4 + 2) * kResults);
  one<3>(x, y, u, v, n, out + (i * 4 + 3) * kResults);
}

int main() {
  static double a[kValues], b[kValues], out[kValues * 4 * kResults];
  double *da, *db, *dout;
  uint64_t state = 3;
  auto next = [&] {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return static_cast<double>(static_cast<int64_t>(state)) / 9223372036854775808.0;
  };
  for (int i = 0; i < kValues; i++) a[i] = next() * 900, b[i] = next() * (i % 5 ? 3 : 1e-8);
  CHECK(cudaMalloc(&da, sizeof a));
  CHECK(cudaMalloc(&db, sizeof b));
  CHECK(cudaMalloc(&dout, sizeof out));
  CHECK(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
  compute<<<kValues / 64, 64>>>(da, db, dout);
  CHECK(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kValues; i++) {
    volatile double u = a[i], v = b[i];
    volatile float x = static_cast<float>(u), y = static_cast<float>(v);
    volatile long long n = static_cast<long long>(u * 1e15);
    for (int m = 0; m < 4; m++) {
      fesetround(modes[m]);
      volatile float f[7];
      volatile double d[3];
      f[0] = x + y, f[1] = x * y, f[2] = x / y, f[3] = sqrtf(fabsf(x)), f[4] = fmaf(x, y, x);
      d[0] = u + v, d[1] = u * v, d[2] = u / v;
      f[5] = static_cast<float>(u), f[6] = static_cast<float>(n);
      fesetround(FE_TONEAREST);
      const double expected[kResults] = {f[0], f[1], f[2], f[3], f[4],
                                         d[0], d[1], d[2], f[5], f[6]};
      for (int k = 0; k < kResults; k++)
        if (out[(i * 4 + m) * kResults + k] != expected[k]) {
          fprintf(stderr, "mode %d, result %d at %.17g and %.17g: %.17g instead of %.17g\n", m, k,
                  a[i], b[i], out[(i * 4 + m) * kResults + k], expected[k]);
          return 1;
        }
    }
  }
  printf("%d results in four roundings at %d places\n", kResults, kValues);
  return 0;
}
