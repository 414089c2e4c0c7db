// Products of blocks of integers, exact, and their sum.
#pragma once

#include "execute/ops/matrix/matrix.h"

#ifdef __AVX2__
#include <immintrin.h>
#endif

namespace softdev::SOFTDEV_ISA {
namespace {

// One row of a block, kDepth elements, to 16 bits.
template <class T>
struct ByteRow {
  static constexpr unsigned kDepth = 16;
  static SOFTDEV_INLINE void widen(const uint8_t *row, int16_t *out) {
    T v[kDepth];
    std::memcpy(v, row, sizeof v);
    for (unsigned j = 0; j < kDepth; ++j) out[j] = v[j];
  }
};
template <bool is_signed>
struct NibbleRow {
  static constexpr unsigned kDepth = 32;
  static SOFTDEV_INLINE void widen(const uint8_t *row, int16_t *out) {
    constexpr int kSign = is_signed ? 8 : 0;
#ifdef __AVX2__
    const __m128i nibble = _mm_set1_epi8(15), sign = _mm_set1_epi8(kSign);
    __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(row));
    __m128i even = _mm_and_si128(bytes, nibble);
    __m128i odd = _mm_and_si128(_mm_srli_epi16(bytes, 4), nibble);
    even = _mm_sub_epi8(_mm_xor_si128(even, sign), sign);
    odd = _mm_sub_epi8(_mm_xor_si128(odd, sign), sign);
    __m256i first = _mm256_cvtepi8_epi16(_mm_unpacklo_epi8(even, odd));
    __m256i second = _mm256_cvtepi8_epi16(_mm_unpackhi_epi8(even, odd));
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(out), first);
    _mm256_storeu_si256(reinterpret_cast<__m256i *>(out + kRowBytes), second);
#else
    for (unsigned j = 0; j < kRowBytes; ++j) {
      out[2 * j] = static_cast<int16_t>(((row[j] & 15) ^ kSign) - kSign);
      out[2 * j + 1] = static_cast<int16_t>(((row[j] >> 4) ^ kSign) - kSign);
    }
#endif
  }
};

// A block of A, whose rows are `depth` elements long when it is whole; and one of B, for each two k
// both elements of each column.
template <class Row>
SOFTDEV_INLINE void widen_a(const uint8_t *from, unsigned row, unsigned block, unsigned depth,
                            int16_t *a) {
  for (unsigned g = 0; g < kEdge; ++g)
    Row::widen(from + g * kRowBytes, a + (row * kEdge + g) * depth + block * Row::kDepth);
}
template <class Row>
SOFTDEV_INLINE void widen_b(const uint8_t *from, unsigned block, int16_t *b) {
  int16_t *to = b + block * Row::kDepth * kEdge;
  for (unsigned n = 0; n < kEdge; ++n) {
    alignas(32) int16_t row[Row::kDepth];
    Row::widen(from + kColumnAt[n] * kRowBytes, row);
    for (unsigned k = 0; k < Row::kDepth; k += 2)
      std::memcpy(to + k * kEdge + 2 * n, row + k, 2 * sizeof(int16_t));
  }
}

// acc = a * b for a block of C.
SOFTDEV_INLINE void multiply(const int16_t *a, unsigned stride, const int16_t *b, unsigned depth,
                             int32_t (*acc)[kEdge]) {
#ifdef __AVX2__
  __m256i sum[kEdge];
  for (unsigned g = 0; g < kEdge; ++g) sum[g] = _mm256_setzero_si256();
  for (unsigned k = 0; k < depth; k += 2) {
    __m256i row = _mm256_load_si256(reinterpret_cast<const __m256i *>(b + k * kEdge));
    for (unsigned g = 0; g < kEdge; ++g) {
      int pair;
      std::memcpy(&pair, a + g * stride + k, sizeof pair);
      sum[g] = _mm256_add_epi32(sum[g], _mm256_madd_epi16(_mm256_set1_epi32(pair), row));
    }
  }
  for (unsigned g = 0; g < kEdge; ++g)
    _mm256_store_si256(reinterpret_cast<__m256i *>(acc[g]), sum[g]);
#else
  for (unsigned g = 0; g < kEdge; ++g) {
    int32_t sum[kEdge] = {};
    for (unsigned k = 0; k < depth; k += 2)
      for (unsigned n = 0; n < kEdge; ++n)
        sum[n] += a[g * stride + k] * b[k * kEdge + 2 * n] +
                  a[g * stride + k + 1] * b[k * kEdge + 2 * n + 1];
    std::memcpy(acc[g], sum, sizeof sum);
  }
#endif
}

// d = c + products, for one block of C.
SOFTDEV_INLINE void accumulate(bool saturate, const int32_t (*products)[kEdge],
                               int32_t (*acc)[kEdge]) {
  for (unsigned g = 0; g < kEdge; ++g) {
    for (unsigned n = 0; n < kEdge; ++n) {
      int64_t sum = int64_t{acc[g][n]} + products[g][n];
      if (saturate) sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
      acc[g][n] = static_cast<int32_t>(static_cast<uint32_t>(sum));
    }
  }
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
