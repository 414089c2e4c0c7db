// A block of a matrix as it lies in a register of a warp: eight rows of 16 bytes.
#pragma once

#include <cstdint>
#include <cstring>

#include "execute/ops/matrix/matrix.h"

#if defined(__AVX512BW__) && defined(__AVX512VL__)
#define SOFTDEV_PERMUTES
#include <immintrin.h>
#ifndef __clang__
// GCC 12 says it of its own intrinsics.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif
#elif defined(__SSE2__)
#include <immintrin.h>
#endif

namespace softdev::SOFTDEV_ISA {
namespace {

#if defined(SOFTDEV_PERMUTES)

// Where the elements of a block of 16 bits each come from when it is turned over; `order` is that
// of the new columns.
struct TurnedOver {
  uint16_t at[2][32];
  constexpr explicit TurnedOver(const unsigned *order) : at() {
    for (unsigned k = 0; k < kEdge; ++k)
      for (unsigned n = 0; n < kEdge; ++n)
        at[k / 4][k % 4 * kEdge + n] = static_cast<uint16_t>((order ? order[n] : n) * kEdge + k);
  }
};

class Block {
 public:
  // `row(g)` is where row g lies.
  template <class Row>
  static SOFTDEV_INLINE Block gather(Row row) {
    Block block;
    for (unsigned half = 0; half < 2; ++half) {
      __m512i four = _mm512_castsi128_si512(one(row(half * 4)));
      four = _mm512_inserti32x4(four, one(row(half * 4 + 1)), 1);
      four = _mm512_inserti32x4(four, one(row(half * 4 + 2)), 2);
      block.four_[half] = _mm512_inserti32x4(four, one(row(half * 4 + 3)), 3);
    }
    return block;
  }
  static SOFTDEV_INLINE Block load(const void *from) {
    Block block;
    block.four_[0] = _mm512_loadu_si512(from);
    block.four_[1] = _mm512_loadu_si512(static_cast<const uint8_t *>(from) + 64);
    return block;
  }
  // Rows become columns, of 16-bit elements.
  SOFTDEV_INLINE Block turned() const {
    static constexpr TurnedOver kTurned(nullptr);
    return turned(kTurned);
  }
  SOFTDEV_INLINE Block turned(const TurnedOver &way) const {
    Block block;
    for (unsigned half = 0; half < 2; ++half)
      block.four_[half] =
          _mm512_permutex2var_epi16(four_[0], _mm512_loadu_si512(way.at[half]), four_[1]);
    return block;
  }
  SOFTDEV_INLINE void store(void *to) const {
    _mm512_storeu_si512(to, four_[0]);
    _mm512_storeu_si512(static_cast<uint8_t *>(to) + 64, four_[1]);
  }
  SOFTDEV_INLINE __m512i rows(unsigned half) const { return four_[half]; }

 private:
  static SOFTDEV_INLINE __m128i one(const void *row) {
    return _mm_loadu_si128(static_cast<const __m128i *>(row));
  }
  __m512i four_[2];
};

#elif defined(__SSE2__)

class Block {
 public:
  template <class Row>
  static SOFTDEV_INLINE Block gather(Row row) {
    Block block;
    for (unsigned g = 0; g < kEdge; ++g)
      block.row_[g] = _mm_loadu_si128(reinterpret_cast<const __m128i *>(row(g)));
    return block;
  }
  static SOFTDEV_INLINE Block load(const void *from) {
    return gather([=](unsigned g) { return static_cast<const uint8_t *>(from) + g * kRowBytes; });
  }
  SOFTDEV_INLINE Block turned() const {
    __m128i r[kEdge], s[kEdge];
    interleave(row_, r);
    interleave(r, s);
    Block block;
    interleave(s, block.row_);
    return block;
  }
  SOFTDEV_INLINE void store(void *to) const {
    auto *at = static_cast<__m128i *>(to);
#ifdef __AVX2__
    // By as much at once as will be read: what is read by more than it was written by must wait.
    for (unsigned g = 0; g < kEdge; g += 2)
      _mm256_storeu_si256(reinterpret_cast<__m256i *>(at + g),
                          _mm256_set_m128i(row_[g + 1], row_[g]));
#else
    for (unsigned g = 0; g < kEdge; ++g) _mm_storeu_si128(at + g, row_[g]);
#endif
  }

 private:
  static SOFTDEV_INLINE void interleave(const __m128i *from, __m128i *to) {
    for (unsigned g = 0; g < kEdge / 2; ++g) {
      to[2 * g] = _mm_unpacklo_epi16(from[g], from[g + 4]);
      to[2 * g + 1] = _mm_unpackhi_epi16(from[g], from[g + 4]);
    }
  }
  __m128i row_[kEdge];
};

#else

class Block {
 public:
  template <class Row>
  static SOFTDEV_INLINE Block gather(Row row) {
    Block block;
    for (unsigned g = 0; g < kEdge; ++g) std::memcpy(block.at_[g], row(g), kRowBytes);
    return block;
  }
  static SOFTDEV_INLINE Block load(const void *from) {
    Block block;
    std::memcpy(block.at_, from, sizeof block.at_);
    return block;
  }
  SOFTDEV_INLINE Block turned() const {
    Block block;
    for (unsigned r = 0; r < kEdge; ++r)
      for (unsigned c = 0; c < kEdge; ++c) block.at_[c][r] = at_[r][c];
    return block;
  }
  SOFTDEV_INLINE void store(void *to) const { std::memcpy(to, at_, sizeof at_); }

 private:
  uint16_t at_[kEdge][kEdge];
};

#endif

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
