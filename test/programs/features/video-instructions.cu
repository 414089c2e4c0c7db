// Video instructions by inline PTX: selected bytes, saturation, a second operation, merging.
#include <cstdint>

#include "../check.h"

constexpr int kWords = 256, kResults = 6;

__global__ void compute(const uint32_t *a, const uint32_t *b, uint32_t *out) {
  int i = threadIdx.x;
  uint32_t x = a[i], y = b[i], r[kResults];
  asm("vadd.s32.u32.u32.sat %0, %1.b1, %2.h1;" : "=r"(r[0]) : "r"(x), "r"(y));
  asm("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(r[1]) : "r"(x), "r"(y), "r"(100));
  asm("vsub.u32.s32.s32.sat %0.b2, %1.b0, %2.b3, %3;"
      : "=r"(r[2])
      : "r"(x), "r"(y), "r"(0x11223344));
  asm("vshr.u32.u32.u32.clamp.add %0, %1, %2.b0, %3;" : "=r"(r[3]) : "r"(x), "r"(y), "r"(9));
  asm("vmad.s32.s32.s32.shr7 %0, %1.h0, %2.h0, %3;" : "=r"(r[4]) : "r"(x), "r"(y), "r"(1000));
  asm("vset4.u32.u32.lt %0, %1, %2, %3;" : "=r"(r[5]) : "r"(x), "r"(y), "r"(0));
  for (int k = 0; k < kResults; k++) out[i * kResults + k] = r[k];
}

int main() {
  uint32_t a[kWords], b[kWords], out[kWords * kResults], state = 3, *da, *db, *dout;
  for (int i = 0; i < kWords; i++) {
    a[i] = state = state * 1664525u + 1013904223u;
    b[i] = state = state * 1664525u + 1013904223u;
  }
  CHECK(cudaMalloc(&da, sizeof a));
  CHECK(cudaMalloc(&db, sizeof b));
  CHECK(cudaMalloc(&dout, sizeof out));
  CHECK(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
  compute<<<1, kWords>>>(da, db, dout);
  CHECK(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kWords; i++) {
    uint32_t x = a[i], y = b[i];
    auto byte = [](uint32_t w, int k) { return static_cast<int>((w >> (8 * k)) & 255); };
    uint32_t sum = 100, less = 0;
    for (int k = 0; k < 4; k++) {
      sum += static_cast<uint32_t>(abs(byte(x, k) - byte(y, k)));
      less |= (byte(x, k) < byte(y, k) ? 1u : 0u) << (8 * k);
    }
    int difference = static_cast<int8_t>(byte(x, 0)) - static_cast<int8_t>(byte(y, 3));
    uint32_t clamped =
        difference < 0 ? 0 : static_cast<uint32_t>(difference);  // 255 is out of reach
    uint32_t count = y & 255;
    int64_t product = int64_t{static_cast<int16_t>(x)} * static_cast<int16_t>(y) + 1000;
    const uint32_t expected[kResults] = {static_cast<uint32_t>(byte(x, 1)) + (y >> 16),
                                         sum,
                                         0x11003344u | clamped << 16,
                                         (count > 31 ? 0 : x >> count) + 9,
                                         static_cast<uint32_t>(product >> 7),
                                         less};
    for (int k = 0; k < kResults; k++)
      if (out[i * kResults + k] != expected[k]) {
        fprintf(stderr, "%08x and %08x, result %d: %08x instead of %08x\n", x, y, k,
                out[i * kResults + k], expected[k]);
        return 1;
      }
  }
  printf("%d pairs of words\n", kWords);
  return 0;
}
