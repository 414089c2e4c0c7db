// The work of the kernels as a C programmer would write it, compiled with -O3 for AVX2 and FMA and
// no other options, and run on one core.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>

namespace plain {

[[gnu::noinline]] inline void vector_add(const float *__restrict__ a, const float *__restrict__ b,
                                         float *__restrict__ out, int n) {
  for (int i = 0; i < n; i++) out[i] = a[i] + b[i];
}

[[gnu::noinline]] inline void sgemm(const float *__restrict__ a, const float *__restrict__ b,
                                    float *__restrict__ out, int n) {
  for (int i = 0; i < n; i++) {
    float *row = out + (size_t)i * n;
    memset(row, 0, sizeof(float) * (size_t)n);
    for (int k = 0; k < n; k++) {
      float factor = a[(size_t)i * n + k];
      const float *from = b + (size_t)k * n;
      for (int j = 0; j < n; j++) row[j] += factor * from[j];
    }
  }
}

[[gnu::noinline]] inline float reduce(const float *in, int n) {
  float sum = 0;
  for (int i = 0; i < n; i++) sum += in[i];
  return sum;
}

[[gnu::noinline]] inline void histogram(const uint8_t *in, uint32_t *bins, int n) {
  memset(bins, 0, 256 * sizeof *bins);
  for (int i = 0; i < n; i++) bins[in[i]]++;
}

[[gnu::noinline]] inline void transpose(const float *__restrict__ in, float *__restrict__ out,
                                        int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++) out[(size_t)j * n + i] = in[(size_t)i * n + j];
}

[[gnu::noinline]] inline void stencil(const float *__restrict__ in, float *__restrict__ out,
                                      int n) {
  for (int i = 1; i < n - 1; i++)
    for (int j = 1; j < n - 1; j++) {
      const float *at = in + (size_t)i * n + j;
      out[(size_t)i * n + j] = 0.5f * at[0] + 0.125f * (at[-1] + at[1] + at[-n] + at[n]);
    }
}

inline float normal(float x) { return 0.5f * erfcf(-x * 0.70710678f); }

[[gnu::noinline]] inline void black_scholes(const float *price, const float *strike,
                                            const float *years, float *call, float *put, int n) {
  const float rate = 0.02f, volatility = 0.3f;
  for (int i = 0; i < n; i++) {
    float root = sqrtf(years[i]);
    float d1 = (logf(price[i] / strike[i]) + (rate + 0.5f * volatility * volatility) * years[i]) /
               (volatility * root);
    float d2 = d1 - volatility * root;
    float discounted = strike[i] * expf(-rate * years[i]);
    call[i] = price[i] * normal(d1) - discounted * normal(d2);
    put[i] = discounted * normal(-d2) - price[i] * normal(-d1);
  }
}

[[gnu::noinline]] inline void divergent(const uint32_t *in, uint32_t *steps, int n) {
  for (int i = 0; i < n; i++) {
    uint32_t value = in[i], count = 0;
    while (value != 1) {
      value = value & 1 ? 3 * value + 1 : value / 2;
      count++;
    }
    steps[i] = count;
  }
}

}  // namespace plain
