// Directed rounding for the time of one instruction. Included by ops/ only.
#pragma once

#include "execute/lanes.h"

#ifdef __SSE2__
#include <immintrin.h>
#else
#include <cfenv>
#endif

namespace softdev::SOFTDEV_ISA {
namespace {

// Loads must come after the constructor and stores before the destructor: the barriers see to it.
class RoundingScope {
 public:
  SOFTDEV_INLINE explicit RoundingScope(Round round) {
#ifdef __SSE2__
    saved_ = _mm_getcsr();
    unsigned mode = round == Round::Zero   ? 3u
                    : round == Round::Down ? 1u
                    : round == Round::Up   ? 2u
                                           : 0u;
    _mm_setcsr((saved_ & ~0x6000u) | mode << 13);
#else
    saved_ = fegetround();
    fesetround(round == Round::Zero   ? FE_TOWARDZERO
               : round == Round::Down ? FE_DOWNWARD
               : round == Round::Up   ? FE_UPWARD
                                      : FE_TONEAREST);
#endif
    __asm__ volatile("" ::: "memory");
  }
  SOFTDEV_INLINE ~RoundingScope() {
    __asm__ volatile("" ::: "memory");
#ifdef __SSE2__
    _mm_setcsr(saved_);
#else
    fesetround(saved_);
#endif
  }
  RoundingScope(const RoundingScope &) = delete;
  RoundingScope &operator=(const RoundingScope &) = delete;

 private:
#ifdef __SSE2__
  unsigned saved_;
#else
  int saved_;
#endif
};

inline bool is_directed(Round round) {
  return round == Round::Zero || round == Round::Down || round == Round::Up;
}

SOFTDEV_INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
SOFTDEV_INLINE double fused(double a, double b, double c) { return __builtin_fma(a, b, c); }

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
