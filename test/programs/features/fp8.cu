// All 8-bit floating-point values of cuda_fp8.h to single precision and back, and rounding to them.
// flags: -gencode arch=compute_89,code=compute_89
#include <cmath>
#include <cstdint>

#include <cuda_fp8.h>

#include "../check.h"

constexpr int kSingles = 4096;

__global__ void all_values(float *e4m3, float *e5m2, uint8_t *again4, uint8_t *again5) {
  int i = threadIdx.x;
  __nv_fp8_e4m3 a;
  __nv_fp8_e5m2 b;
  a.__x = static_cast<__nv_fp8_storage_t>(i);
  b.__x = static_cast<__nv_fp8_storage_t>(i);
  e4m3[i] = static_cast<float>(a);
  e5m2[i] = static_cast<float>(b);
  again4[i] = __nv_fp8_e4m3(e4m3[i]).__x;
  again5[i] = __nv_fp8_e5m2(e5m2[i]).__x;
}

__global__ void round_to_fp8(const float *in, uint8_t *e4m3, uint8_t *e5m2) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  e4m3[i] = __nv_fp8_e4m3(in[i]).__x;
  e5m2[i] = __nv_fp8_e5m2(in[i]).__x;
}

float value(int code, int mantissa, int bias) {
  int exponent = (code & 127) >> mantissa, rest = code & ((1 << mantissa) - 1);
  float magnitude =
      exponent ? ldexpf(static_cast<float>(rest + (1 << mantissa)), exponent - bias - mantissa)
               : ldexpf(static_cast<float>(rest), 1 - bias - mantissa);
  return code & 128 ? -magnitude : magnitude;
}
// The code whose value is nearest, the even one of two; `largest` at most.
int nearest(float x, int mantissa, int bias, int largest) {
  int best = 0;
  for (int code = 0; code <= largest; code++) {
    float now = fabsf(value(code, mantissa, bias) - fabsf(x));
    float before = fabsf(value(best, mantissa, bias) - fabsf(x));
    if (now < before || (now == before && code % 2 == 0)) best = code;
  }
  return best | (signbit(x) ? 128 : 0);
}

int main() {
  float *e4m3, *e5m2, host4[256], host5[256];
  uint8_t *again4, *again5, bytes4[256], bytes5[256];
  CHECK(cudaMalloc(&e4m3, sizeof host4));
  CHECK(cudaMalloc(&e5m2, sizeof host5));
  CHECK(cudaMalloc(&again4, 256));
  CHECK(cudaMalloc(&again5, 256));
  all_values<<<1, 256>>>(e4m3, e5m2, again4, again5);
  CHECK(cudaMemcpy(host4, e4m3, sizeof host4, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(host5, e5m2, sizeof host5, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(bytes4, again4, 256, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(bytes5, again5, 256, cudaMemcpyDeviceToHost));
  for (int i = 0; i < 256; i++) {
    bool nan4 = (i & 127) == 127, special5 = (i & 127) >= 124;
    if (nan4 ? !isnan(host4[i]) : host4[i] != value(i, 3, 7) || bytes4[i] != i) {
      fprintf(stderr, "e4m3 %d became %g\n", i, host4[i]);
      return 1;
    }
    bool good5 = special5 ? (i & 3 ? isnan(host5[i]) : isinf(host5[i]))
                          : host5[i] == value(i, 2, 15) && bytes5[i] == i;
    if (!good5) {
      fprintf(stderr, "e5m2 %d became %g\n", i, host5[i]);
      return 1;
    }
  }

  float *in, singles[kSingles];
  uint8_t *out4, *out5, rounded4[kSingles], rounded5[kSingles];
  uint32_t state = 1;
  for (float &x : singles) {
    state = state * 1664525u + 1013904223u;
    x = ldexpf(static_cast<float>(static_cast<int32_t>(state)), static_cast<int>(state % 29) - 45);
  }
  CHECK(cudaMalloc(&in, sizeof singles));
  CHECK(cudaMalloc(&out4, kSingles));
  CHECK(cudaMalloc(&out5, kSingles));
  CHECK(cudaMemcpy(in, singles, sizeof singles, cudaMemcpyHostToDevice));
  round_to_fp8<<<kSingles / 128, 128>>>(in, out4, out5);
  CHECK(cudaMemcpy(rounded4, out4, kSingles, cudaMemcpyDeviceToHost));
  CHECK(cudaMemcpy(rounded5, out5, kSingles, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kSingles; i++)
    if (rounded4[i] != nearest(singles[i], 3, 7, 126) ||
        rounded5[i] != nearest(singles[i], 2, 15, 123)) {
      fprintf(stderr, "%g became %d and %d\n", singles[i], rounded4[i], rounded5[i]);
      return 1;
    }
  printf("512 values of 8 bits, %d numbers rounded to each format\n", kSingles);
  return 0;
}
