// Products of blocks in single precision: of f16, bf16, tf32 and 8-bit floating point.
//
// Products are exact, or rounded once where they leave the range of single precision; they are
// added to C in single precision one by one, in the order of k, each sum rounded to nearest. f16
// accumulators are rounded when all is added.
#pragma once

#include <array>

#include "execute/ops/arithmetic/half.h"
#include "execute/ops/matrix/matrix.h"
#include "execute/ops/matrix/matrix_block.h"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)
#define SOFTDEV_FAST_MMA
#include <immintrin.h>
#endif

namespace softdev::SOFTDEV_ISA {
namespace {

// One row of a block, kDepth elements, to single precision.
struct HalfRow {
  static constexpr unsigned kDepth = 8;
#ifdef SOFTDEV_PERMUTES
  static SOFTDEV_INLINE __m512 widen(__m256i two_rows) { return _mm512_cvtph_ps(two_rows); }
#endif
  static SOFTDEV_INLINE void widen(const uint8_t *row, float *out) {
#ifdef SOFTDEV_FAST_MMA
    _mm256_storeu_ps(out, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i *>(row))));
#else
    uint16_t h[kDepth];
    std::memcpy(h, row, sizeof h);
    for (unsigned j = 0; j < kDepth; ++j) out[j] = SOFTDEV_ISA::widen<F16Format>(h[j]);
#endif
  }
};
struct BrainRow {
  static constexpr unsigned kDepth = 8;
#ifdef SOFTDEV_PERMUTES
  static SOFTDEV_INLINE __m512 widen(__m256i two_rows) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(two_rows), 16));
  }
#endif
  static SOFTDEV_INLINE void widen(const uint8_t *row, float *out) {
    uint16_t h[kDepth];
    std::memcpy(h, row, sizeof h);
    for (unsigned j = 0; j < kDepth; ++j) out[j] = SOFTDEV_ISA::widen<BF16Format>(h[j]);
  }
};
// The low 13 bits of a tf32 register are not looked at.
struct Tf32Row {
  static constexpr unsigned kDepth = 4;
  static SOFTDEV_INLINE void widen(const uint8_t *row, float *out) {
    uint32_t bits[kDepth];
    std::memcpy(bits, row, sizeof bits);
    for (unsigned j = 0; j < kDepth; ++j) out[j] = bit_cast<float>(bits[j] & 0xffffe000u);
  }
};

// All values of an 8-bit format. Without infinity, only the largest magnitude is NaN.
template <int mantissa, int bias, bool infinity>
constexpr std::array<float, 256> all_values() {
  std::array<float, 256> values{};
  for (int bits = 0; bits < 256; ++bits) {
    int magnitude = bits & 0x7f, exponent = magnitude >> mantissa;
    int fraction = magnitude & ((1 << mantissa) - 1);
    constexpr int kTop = 0x7f >> mantissa;
    float value = 0;
    if (infinity && exponent == kTop) {
      value = fraction ? __builtin_nanf("") : __builtin_inff();
    } else if (magnitude == 0x7f) {
      value = __builtin_nanf("");
    } else {
      value = static_cast<float>(exponent ? fraction + (1 << mantissa) : fraction);
      int scale = (exponent ? exponent : 1) - bias - mantissa;
      for (; scale > 0; --scale) value *= 2;
      for (; scale < 0; ++scale) value /= 2;
    }
    values[static_cast<unsigned>(bits)] = bits & 0x80 ? -value : value;
  }
  return values;
}
template <int mantissa, int bias, bool infinity>
struct SmallRow {
  static constexpr unsigned kDepth = 16;
  static constexpr std::array<float, 256> kValues = all_values<mantissa, bias, infinity>();
  static SOFTDEV_INLINE void widen(const uint8_t *row, float *out) {
#ifdef SOFTDEV_FAST_MMA
    // Both formats are f16 with fewer bits: of e4m3 the exponent is too small by 8, and its NaN
    // looks like a number.
    __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i *>(row));
    __m256i words = _mm256_slli_epi16(_mm256_cvtepu8_epi16(bytes), 8);
    if constexpr (mantissa == 3) {
      const __m256i magnitude = _mm256_set1_epi16(0x7f00);
      __m256i nan = _mm256_cmpeq_epi16(_mm256_and_si256(words, magnitude), magnitude);
      __m256i sign = _mm256_and_si256(words, _mm256_set1_epi16(-0x8000));
      words = _mm256_or_si256(_mm256_srli_epi16(_mm256_and_si256(words, magnitude), 1), sign);
      words = _mm256_or_si256(words, _mm256_and_si256(nan, _mm256_set1_epi16(0x7f80)));
    }
    const __m256 scale = _mm256_set1_ps(mantissa == 3 ? 256.0f : 1.0f);
    _mm256_storeu_ps(out, _mm256_mul_ps(_mm256_cvtph_ps(_mm256_castsi256_si128(words)), scale));
    _mm256_storeu_ps(out + 8,
                     _mm256_mul_ps(_mm256_cvtph_ps(_mm256_extracti128_si256(words, 1)), scale));
#else
    for (unsigned j = 0; j < kDepth; ++j) out[j] = kValues[row[j]];
#endif
  }
};
using E4M3Row = SmallRow<3, 7, false>;
using E5M2Row = SmallRow<2, 15, true>;

// A, block by block: the rows of a block lie one behind the other.
template <class Row, class Blocks>
SOFTDEV_INLINE void get_a(const Blocks &blocks, unsigned count, float *a) {
  for (unsigned block = 0; block < count; ++block)
    for (unsigned g = 0; g < kEdge; ++g)
      Row::widen(blocks[block] + g * kRowBytes, a + (block * kEdge + g) * Row::kDepth);
}

#ifdef SOFTDEV_FAST_MMA
SOFTDEV_INLINE void transpose(const float *from, unsigned stride, float *to) {
  __m256 r[8], s[8];
  for (unsigned n = 0; n < 8; ++n) r[n] = _mm256_loadu_ps(from + kColumnAt[n] * stride);
  for (unsigned n = 0; n < 8; n += 2) {
    s[n] = _mm256_unpacklo_ps(r[n], r[n + 1]);
    s[n + 1] = _mm256_unpackhi_ps(r[n], r[n + 1]);
  }
  for (unsigned n = 0; n < 8; n += 4) {
    r[n] = _mm256_shuffle_ps(s[n], s[n + 2], 0x44);
    r[n + 1] = _mm256_shuffle_ps(s[n], s[n + 2], 0xee);
    r[n + 2] = _mm256_shuffle_ps(s[n + 1], s[n + 3], 0x44);
    r[n + 3] = _mm256_shuffle_ps(s[n + 1], s[n + 3], 0xee);
  }
  for (unsigned k = 0; k < 4; ++k) {
    _mm256_store_ps(to + k * kEdge, _mm256_permute2f128_ps(r[k], r[k + 4], 0x20));
    _mm256_store_ps(to + (k + 4) * kEdge, _mm256_permute2f128_ps(r[k], r[k + 4], 0x31));
  }
}
#endif

// A register of B as kEdge floats for each k.
template <class Row>
SOFTDEV_INLINE void get_b(const uint8_t *from, float *to) {
#ifdef SOFTDEV_PERMUTES
  if constexpr (Row::kDepth == 8) {
    // Columns in the order of C.
    static constexpr TurnedOver kByColumn(kColumnAt);
    const Block block = Block::load(from).turned(kByColumn);
    for (unsigned half = 0; half < 2; ++half, to += 32) {
      _mm512_storeu_ps(to, Row::widen(_mm512_castsi512_si256(block.rows(half))));
      _mm512_storeu_ps(to + 16, Row::widen(_mm512_extracti64x4_epi64(block.rows(half), 1)));
    }
    return;
  }
#endif
  alignas(32) float columns[kEdge * Row::kDepth];
  for (unsigned n = 0; n < kEdge; ++n) Row::widen(from + n * kRowBytes, columns + n * Row::kDepth);
#ifdef SOFTDEV_FAST_MMA
  if constexpr (Row::kDepth >= 8) {
    for (unsigned k = 0; k < Row::kDepth; k += 8)
      transpose(columns + k, Row::kDepth, to + k * kEdge);
    return;
  }
#endif
  for (unsigned k = 0; k < Row::kDepth; ++k)
    for (unsigned n = 0; n < kEdge; ++n)
      to[k * kEdge + n] = columns[kColumnAt[n] * Row::kDepth + k];
}

// Blocks of C that lie one below the other: acc += a * b. `a` is the first block of those rows,
// `across` is how far the next one along k is.
template <unsigned rows, unsigned kDepth>
SOFTDEV_INLINE void multiply(const float *a, unsigned across, const float *b, unsigned depth,
                             float (*acc)[kEdge]) {
  constexpr unsigned kRows = rows * kEdge;
#ifdef SOFTDEV_FAST_MMA
  __m256 sum[kRows];
  for (unsigned g = 0; g < kRows; ++g) sum[g] = _mm256_load_ps(acc[g]);
  for (unsigned block = 0; block < depth; ++block, a += across) {
#pragma GCC unroll 8
    for (unsigned k = 0; k < kDepth; ++k, b += kEdge) {
      const __m256 row = _mm256_load_ps(b);
      for (unsigned g = 0; g < kRows; ++g)
        sum[g] = _mm256_fmadd_ps(_mm256_broadcast_ss(a + g * kDepth + k), row, sum[g]);
    }
  }
  for (unsigned g = 0; g < kRows; ++g) _mm256_store_ps(acc[g], sum[g]);
#else
  for (unsigned g = 0; g < kRows; ++g) {
    float sum[kEdge];
    std::memcpy(sum, acc[g], sizeof sum);
    for (unsigned block = 0; block < depth; ++block)
      for (unsigned k = 0; k < kDepth; ++k)
        for (unsigned n = 0; n < kEdge; ++n)
          sum[n] += a[block * across + g * kDepth + k] * b[(block * kDepth + k) * kEdge + n];
    std::memcpy(acc[g], sum, sizeof sum);
  }
#endif
}

// ---- accumulators of f32: a register has every second column

SOFTDEV_INLINE void get_single_block(Warp &w, const uint32_t *c, float (*acc)[kEdge]) {
#ifdef SOFTDEV_FAST_MMA
  const float *even = slot<float>(w, c[0]), *odd = slot<float>(w, c[1]);
  for (unsigned g = 0; g < kEdge; ++g)
    _mm256_store_ps(acc[g], _mm256_loadu2_m128(odd + 4 * g, even + 4 * g));
#else
  get_block(w, c, acc);
#endif
}
SOFTDEV_INLINE void put_single_block(Warp &w, const uint32_t *d, const float (*acc)[kEdge]) {
#ifdef SOFTDEV_FAST_MMA
  if (w.mask == kFullMask) {
    // By as much at once as will be read: what is read by more than it was written by must wait.
    float *even = slot<float>(w, d[0]), *odd = slot<float>(w, d[1]);
    for (unsigned g = 0; g < kEdge; g += 2) {
      const __m256 one = _mm256_load_ps(acc[g]), next = _mm256_load_ps(acc[g + 1]);
      _mm256_storeu_ps(even + 4 * g, _mm256_permute2f128_ps(one, next, 0x20));
      _mm256_storeu_ps(odd + 4 * g, _mm256_permute2f128_ps(one, next, 0x31));
    }
    return;
  }
#endif
  put_block(w, d, acc);
}

// ---- accumulators of f16: a register has two columns

SOFTDEV_INLINE void get_half_block(Warp &w, uint32_t c, float (*acc)[kEdge]) {
  const uint8_t *from = slot<uint8_t>(w, c);
  for (unsigned g = 0; g < kEdge; ++g) {
    float row[kEdge];
    HalfRow::widen(from + g * kRowBytes, row);
    for (unsigned n = 0; n < kEdge; ++n) acc[g][column_place(n)] = row[n];
  }
}
SOFTDEV_INLINE void put_half_block(Warp &w, uint32_t d, const float (*acc)[kEdge]) {
  alignas(64) uint16_t v[kEdge][kEdge];
  for (unsigned g = 0; g < kEdge; ++g) {
#ifdef SOFTDEV_FAST_MMA
    __m128i h = _mm256_cvtps_ph(_mm256_load_ps(acc[g]), _MM_FROUND_TO_NEAREST_INT);
    _mm_store_si128(reinterpret_cast<__m128i *>(v[g]), _mm_unpacklo_epi16(h, _mm_srli_si128(h, 8)));
#else
    for (unsigned n = 0; n < kEdge; ++n) v[g][n] = nearest<F16Format>(acc[g][column_place(n)]);
#endif
  }
  put(w, d, reinterpret_cast<const uint32_t *>(v));
}

// NaN has one form.
SOFTDEV_INLINE void finish(float (*acc)[kEdge]) {
  for (unsigned g = 0; g < kEdge; ++g) {
#ifdef SOFTDEV_FAST_MMA
    const __m256 row = _mm256_load_ps(acc[g]);
    const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32(0x7fffffff));
    _mm256_store_ps(acc[g], _mm256_blendv_ps(row, nan, _mm256_cmp_ps(row, row, _CMP_UNORD_Q)));
#else
    for (unsigned n = 0; n < kEdge; ++n) acc[g][n] = canonical(acc[g][n]);
#endif
  }
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
