// Rounding, flushing of denormals and traps that a program has set for its own threads are nothing
// to kernels, and CUDA leaves them as they are.
#include <cfenv>
#include <cmath>
#include <cstdint>
#include <cstring>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include "check.h"

constexpr int kCount = 1 << 12, kResults = 6;

__global__ void compute(const float *values, float *results) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  const float a = values[i], b = values[(i + 1) % kCount];
  float *out = results + i * kResults;
  out[0] = __fadd_rn(a, b);
  out[1] = __fmul_rn(a, b);
  out[2] = __fdiv_rn(a, b);
  out[3] = __fsqrt_rn(fabsf(a));
  out[4] = __fmaf_rn(a, b, a);
  out[5] = static_cast<float>(__dadd_rn(a, 1.0) * 3.0);
}

static float values[kCount];
static float expected[kCount * kResults], results[kCount * kResults];

int main() {
  uint32_t seed = 1;
  for (float &value : values) {
    seed = seed * 1664525 + 1013904223;
    uint32_t bits = seed;
    if (seed % 7 == 0) bits &= 0x807fffff;            // denormals
    if ((bits & 0x7f800000) == 0x7f800000) bits = 0;  // zeros, to divide by
    memcpy(&value, &bits, sizeof value);
  }
  for (int i = 0; i < kCount; i++) {
    const volatile float a = values[i], b = values[(i + 1) % kCount];
    float *out = expected + i * kResults;
    out[0] = a + b;
    out[1] = a * b;
    out[2] = a / b;
    out[3] = std::sqrt(std::fabs(a));
    out[4] = std::fma(a, b, a);
    const volatile double sum = a + 1.0;
    out[5] = static_cast<float>(sum * 3.0);
  }

  feclearexcept(FE_ALL_EXCEPT);
  fesetround(FE_UPWARD);
#if defined(__x86_64__)
  _mm_setcsr(_mm_getcsr() | 0x8040);
  const unsigned before = _mm_getcsr() & 0xffc0;
#endif
  feenableexcept(FE_DIVBYZERO | FE_INVALID | FE_OVERFLOW);
  const int traps = fegetexcept();
  float *in, *out;
  CHECK(cudaMalloc(&in, sizeof values));
  CHECK(cudaMalloc(&out, sizeof results));
  CHECK(cudaMemcpy(in, values, sizeof values, cudaMemcpyHostToDevice));
  compute<<<kCount / 256, 256>>>(in, out);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpy(results, out, sizeof results, cudaMemcpyDeviceToHost));
  bool kept = fegetround() == FE_UPWARD && fegetexcept() == traps;
#if defined(__x86_64__)
  kept = kept && ((_mm_getcsr() ^ before) & 0xe040) == 0;
#endif
  printf("the program's own: %s\n", kept ? "as before" : "WRONG");

  fesetenv(FE_DFL_ENV);
  int wrong = 0;
  for (int i = 0; i < kCount * kResults; i++) {
    const bool both = std::isnan(expected[i]) && std::isnan(results[i]);
    if (both || memcmp(&expected[i], &results[i], sizeof(float)) == 0) continue;
    if (wrong++ < 3)
      printf("result %d of %d: %a, and not %a WRONG\n", i % kResults, i / kResults, results[i],
             expected[i]);
  }
  printf("results: %s\n", wrong ? "WRONG" : "right");
  return wrong || !kept;
}
