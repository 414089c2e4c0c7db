// Arithmetic on four bytes or two halves of a word at once: the __vadd4 family, dot products,
// permutation.
#include <cstdint>

#include "../check.h"

constexpr int kWords = 1024, kResults = 14;

__global__ void compute(const uint32_t *a, const uint32_t *b, uint32_t *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  uint32_t x = a[i], y = b[i], *r = out + i * kResults;
  r[0] = __vadd4(x, y);
  r[1] = __vsub2(x, y);
  r[2] = __vabsdiffu4(x, y);
  r[3] = __vmaxs4(x, y);
  r[4] = __vminu2(x, y);
  r[5] = __vavgu4(x, y);
  r[6] = __vcmpgts4(x, y);
  r[7] = __vseteq4(x & 0x03030303u, y & 0x03030303u);
  r[8] = __vaddss4(x, y);
  r[9] = __vsadu4(x, y);
  r[10] = static_cast<uint32_t>(__dp4a(static_cast<int>(x), static_cast<int>(y), -7));
  r[11] = __byte_perm(x, y, 0x6420);
  r[12] = __vnegss2(x);
  r[13] = static_cast<uint32_t>(__dp2a_lo(static_cast<int>(x), static_cast<int>(y), 5));
}

template <class T>
T part(uint32_t word, int i) {
  return static_cast<T>(word >> (8 * sizeof(T) * i));
}
// f of each part, put together.
template <class T, class F>
uint32_t each(F f) {
  uint32_t word = 0;
  constexpr int kBits = 8 * sizeof(T);
  for (int i = 0; i < 32 / kBits; i++)
    word |= (static_cast<uint32_t>(f(i)) & ((1u << kBits) - 1)) << (kBits * i);
  return word;
}
int limited(int x, int least, int most) { return x < least ? least : x > most ? most : x; }

int main() {
  static uint32_t a[kWords], b[kWords], out[kWords * kResults];
  uint32_t state = 7, *da, *db, *dout;
  for (int i = 0; i < kWords; i++) {
    a[i] = state = state * 1664525u + 1013904223u;
    b[i] = state = state * 1664525u + 1013904223u;
    if (i % 5 == 0) b[i] = a[i] ^ 0x80000180u;
  }
  CHECK(cudaMalloc(&da, sizeof a));
  CHECK(cudaMalloc(&db, sizeof b));
  CHECK(cudaMalloc(&dout, sizeof out));
  CHECK(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
  compute<<<kWords / 128, 128>>>(da, db, dout);
  CHECK(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
  for (int n = 0; n < kWords; n++) {
    uint32_t x = a[n], y = b[n];
    auto u8 = [](uint32_t w, int i) { return static_cast<int>(part<uint8_t>(w, i)); };
    auto s8 = [](uint32_t w, int i) { return static_cast<int>(part<int8_t>(w, i)); };
    auto u16 = [](uint32_t w, int i) { return static_cast<int>(part<uint16_t>(w, i)); };
    auto s16 = [](uint32_t w, int i) { return static_cast<int>(part<int16_t>(w, i)); };
    int differences = 0, dot4 = -7, dot2 = 5;
    for (int i = 0; i < 4; i++) {
      differences += abs(u8(x, i) - u8(y, i));
      dot4 += s8(x, i) * s8(y, i);
    }
    for (int i = 0; i < 2; i++) dot2 += s16(x, i) * s8(y, i);
    const uint32_t expected[kResults] = {
        each<uint8_t>([&](int i) { return u8(x, i) + u8(y, i); }),
        each<uint16_t>([&](int i) { return u16(x, i) - u16(y, i); }),
        each<uint8_t>([&](int i) { return abs(u8(x, i) - u8(y, i)); }),
        each<uint8_t>([&](int i) { return s8(x, i) > s8(y, i) ? s8(x, i) : s8(y, i); }),
        each<uint16_t>([&](int i) { return u16(x, i) < u16(y, i) ? u16(x, i) : u16(y, i); }),
        each<uint8_t>([&](int i) { return (u8(x, i) + u8(y, i) + 1) / 2; }),
        each<uint8_t>([&](int i) { return s8(x, i) > s8(y, i) ? 255 : 0; }),
        each<uint8_t>([&](int i) { return (u8(x, i) & 3) == (u8(y, i) & 3) ? 1 : 0; }),
        each<uint8_t>([&](int i) { return limited(s8(x, i) + s8(y, i), -128, 127); }),
        static_cast<uint32_t>(differences),
        static_cast<uint32_t>(dot4),
        part<uint8_t>(x, 0) | part<uint8_t>(x, 2) << 8 | part<uint8_t>(y, 0) << 16 |
            static_cast<uint32_t>(part<uint8_t>(y, 2)) << 24,
        each<uint16_t>([&](int i) { return limited(-s16(x, i), -32768, 32767); }),
        static_cast<uint32_t>(dot2)};
    for (int i = 0; i < kResults; i++)
      if (out[n * kResults + i] != expected[i]) {
        fprintf(stderr, "%08x and %08x, result %d: %08x instead of %08x\n", x, y, i,
                out[n * kResults + i], expected[i]);
        return 1;
      }
  }
  printf("%d words, %d results each\n", kWords, kResults);
  return 0;
}
