// Half and bfloat16 values of cuda_fp16.h and cuda_bf16.h: conversion, arithmetic, comparison, one
// and two at once.
#include <cmath>
#include <cstdint>
#include <cstring>

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "../check.h"

constexpr int kValues = 512;

struct Results {
  float half_sum, half_product, half_fused, brain_sum, brain_fused;
  uint32_t pair, larger, mask;
  float square_root, exponential;
};

__global__ void compute(const float *a, const float *b, Results *out) {
  int i = threadIdx.x;
  __half x = __float2half_rn(a[i]), y = __float2half_rn(b[i]);
  __nv_bfloat16 u = __float2bfloat16_rn(a[i]), v = __float2bfloat16_rn(b[i]);
  Results r;
  r.half_sum = __half2float(__hadd(x, y));
  r.half_product = __half2float(__hmul(x, y));
  r.half_fused = __half2float(__hfma(x, y, x));
  r.brain_sum = __bfloat162float(__hadd(u, v));
  r.brain_fused = __bfloat162float(__hfma(u, v, u));
  __half2 pair = __hsub2(__halves2half2(x, y), __halves2half2(y, x));
  __half2 larger = __hmax2(__halves2half2(x, y), __halves2half2(y, x));
  memcpy(&r.pair, &pair, 4);
  memcpy(&r.larger, &larger, 4);
  r.mask = __hlt2_mask(__halves2half2(x, y), __halves2half2(y, x));
  r.square_root = __half2float(hsqrt(__habs(x)));
  r.exponential = __half2float(hexp(__hmul(y, __float2half(0.01f))));
  out[i] = r;
}

float halved(float x) { return __half2float(__float2half_rn(x)); }
float brained(float x) { return __bfloat162float(__float2bfloat16_rn(x)); }
uint32_t bits(float x) {
  __half h = __float2half_rn(x);
  uint16_t raw;
  memcpy(&raw, &h, 2);
  return raw;
}
bool close(float got, float want, float relative) {
  return fabsf(got - want) <= relative * fabsf(want);
}

int main() {
  float a[kValues], b[kValues], *da, *db;
  Results out[kValues], *dout;
  for (int i = 0; i < kValues; i++) {
    a[i] = static_cast<float>(i - 250) * 0.37f;
    b[i] = static_cast<float>((i * 29) % 401 - 200) * 0.11f;
  }
  CHECK(cudaMalloc(&da, sizeof a));
  CHECK(cudaMalloc(&db, sizeof b));
  CHECK(cudaMalloc(&dout, sizeof out));
  CHECK(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
  compute<<<1, kValues>>>(da, db, dout);
  CHECK(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kValues; i++) {
    float x = halved(a[i]), y = halved(b[i]), u = brained(a[i]), v = brained(b[i]);
    const Results &r = out[i];
    // Sums and products of 16-bit values are exact in double precision, or nearly so.
    bool good = r.half_sum == halved(x + y) && r.half_product == halved(x * y) &&
                r.half_fused == halved(static_cast<float>(double(x) * y + x)) &&
                r.brain_sum == brained(u + v) &&
                r.brain_fused == brained(static_cast<float>(double(u) * v + u)) &&
                r.pair == (bits(x - y) | bits(y - x) << 16) &&
                r.larger == (bits(fmaxf(x, y)) | bits(fmaxf(x, y)) << 16) &&
                r.mask == ((x < y ? 0xffffu : 0) | (y < x ? 0xffff0000u : 0)) &&
                close(r.square_root, sqrtf(fabsf(x)), 1e-3f) &&
                close(r.exponential, expf(y * 0.01f), 2e-3f);
    if (!good) {
      fprintf(stderr, "value %d (%g and %g) is wrong\n", i, a[i], b[i]);
      return 1;
    }
  }
  printf("%d pairs of 16-bit values\n", kValues);
  return 0;
}
