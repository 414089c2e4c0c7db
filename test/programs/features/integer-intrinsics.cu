// Integer and bit intrinsics: counts, reversal, funnel shifts, high products, 128-bit arithmetic,
// carry chains.
#include <cstdint>

#include "../check.h"

using Wide = unsigned __int128;
constexpr int kValues = 1024;

struct Results {
  uint32_t ones, leading, reversed, first, funnel, high, nth, average, clamped_shift;
  uint64_t high64, ones64, reversed64;
  uint64_t product[2], quotient[2], sum[2];
  int32_t sum_of_differences, product24, byte_sum;
};

__global__ void compute(const uint64_t *a, const uint64_t *b, Results *out) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  uint64_t x = a[i], y = b[i];
  auto p = static_cast<uint32_t>(x), q = static_cast<uint32_t>(y);
  Results r;
  r.ones = static_cast<uint32_t>(__popc(p));
  r.leading = static_cast<uint32_t>(__clz(static_cast<int>(p >> (q & 31))));
  r.reversed = __brev(p);
  r.first = static_cast<uint32_t>(__ffs(static_cast<int>(p & q)));
  r.funnel = __funnelshift_l(p, q, q);
  r.clamped_shift = __funnelshift_rc(p, q, q & 63);
  r.high = __umulhi(p, q);
  r.nth = __fns(p, 0, static_cast<int>(q & 7) + 1);
  r.average = __uhadd(p, q);
  r.high64 = __umul64hi(x, y);
  r.ones64 = static_cast<uint64_t>(__popcll(x));
  r.reversed64 = __brevll(x);
  Wide product = static_cast<Wide>(x) * y;
  Wide quotient = product / (y | 1), sum = product + (static_cast<Wide>(y) << 64 | x);
  r.product[0] = static_cast<uint64_t>(product);
  r.product[1] = static_cast<uint64_t>(product >> 64);
  r.quotient[0] = static_cast<uint64_t>(quotient);
  r.quotient[1] = static_cast<uint64_t>(quotient >> 64);
  // The sum again, by a carry chain.
  asm("add.cc.u64 %0, %2, %4; addc.u64 %1, %3, %5;"
      : "=l"(r.sum[0]), "=l"(r.sum[1])
      : "l"(r.product[0]), "l"(r.product[1]), "l"(x), "l"(y));
  if (r.sum[0] != static_cast<uint64_t>(sum) || r.sum[1] != static_cast<uint64_t>(sum >> 64))
    r.sum[0] = ~r.sum[0];
  r.sum_of_differences = static_cast<int32_t>(__usad(p, q, 5));
  r.product24 = __mul24(static_cast<int>(p), static_cast<int>(q));
  r.byte_sum = __dp4a(static_cast<int>(p), 0x01010101, 0);
  out[i] = r;
}

int main() {
  static uint64_t a[kValues], b[kValues];
  static Results out[kValues];
  uint64_t state = 5, *da, *db;
  Results *dout;
  for (int i = 0; i < kValues; i++) {
    a[i] = state = state * 6364136223846793005u + 1442695040888963407u;
    b[i] = state = state * 6364136223846793005u + 1442695040888963407u;
    if (i % 3 == 0) b[i] >>= i % 60;
  }
  CHECK(cudaMalloc(&da, sizeof a));
  CHECK(cudaMalloc(&db, sizeof b));
  CHECK(cudaMalloc(&dout, sizeof out));
  CHECK(cudaMemcpy(da, a, sizeof a, cudaMemcpyHostToDevice));
  CHECK(cudaMemcpy(db, b, sizeof b, cudaMemcpyHostToDevice));
  compute<<<kValues / 128, 128>>>(da, db, dout);
  CHECK(cudaMemcpy(out, dout, sizeof out, cudaMemcpyDeviceToHost));
  for (int i = 0; i < kValues; i++) {
    uint64_t x = a[i], y = b[i];
    auto p = static_cast<uint32_t>(x), q = static_cast<uint32_t>(y);
    uint32_t reversed = 0, nth = 0xffffffffu, seen = 0;
    uint64_t reversed64 = 0;
    for (uint32_t k = 0; k < 32; k++) {
      reversed |= ((p >> k) & 1u) << (31 - k);
      if (((p >> k) & 1) && ++seen == (q & 7) + 1) nth = k;
    }
    for (int k = 0; k < 64; k++) reversed64 |= ((x >> k) & 1) << (63 - k);
    Wide product = static_cast<Wide>(x) * y, quotient = product / (y | 1);
    Wide sum = product + (static_cast<Wide>(y) << 64 | x);
    uint64_t both = static_cast<uint64_t>(q) << 32 | p;
    uint32_t shifted = p >> (q & 31), clamped = (q & 63) > 32 ? 32 : q & 63;
    auto low24 = [](uint32_t v) { return int64_t{static_cast<int32_t>(v << 8) >> 8}; };
    int32_t bytes = 0;
    for (int k = 0; k < 4; k++) bytes += static_cast<int8_t>(p >> (8 * k));
    const Results &r = out[i];
    bool good =
        r.ones == static_cast<uint32_t>(__builtin_popcount(p)) &&
        r.leading == (shifted ? static_cast<uint32_t>(__builtin_clz(shifted)) : 32) &&
        r.reversed == reversed &&
        r.first == static_cast<uint32_t>(__builtin_ffs(static_cast<int>(p & q))) &&
        r.funnel == static_cast<uint32_t>((both << (q & 31)) >> 32) &&
        r.clamped_shift == static_cast<uint32_t>(both >> clamped) &&
        r.high == static_cast<uint32_t>((static_cast<uint64_t>(p) * q) >> 32) && r.nth == nth &&
        r.average == static_cast<uint32_t>((static_cast<uint64_t>(p) + q) / 2) &&
        r.high64 == static_cast<uint64_t>(product >> 64) &&
        r.ones64 == static_cast<uint64_t>(__builtin_popcountll(x)) && r.reversed64 == reversed64 &&
        r.product[0] == static_cast<uint64_t>(product) &&
        r.product[1] == static_cast<uint64_t>(product >> 64) &&
        r.quotient[0] == static_cast<uint64_t>(quotient) &&
        r.quotient[1] == static_cast<uint64_t>(quotient >> 64) &&
        r.sum[0] == static_cast<uint64_t>(sum) && r.sum[1] == static_cast<uint64_t>(sum >> 64) &&
        r.sum_of_differences == static_cast<int32_t>((p > q ? p - q : q - p) + 5) &&
        r.product24 == static_cast<int32_t>(low24(p) * low24(q)) && r.byte_sum == bytes;
    if (!good) {
      fprintf(stderr, "value %d (%016llx and %016llx) is wrong\n", i,
              static_cast<unsigned long long>(x), static_cast<unsigned long long>(y));
      return 1;
    }
  }
  printf("%d pairs of integers\n", kValues);
  return 0;
}
