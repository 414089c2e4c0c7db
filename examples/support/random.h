// SplitMix64: the same numbers on every machine, unlike the distributions of the C++ library.
#pragma once

#include <cstdint>

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}

  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15ull;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
  }

  // 0 to limit - 1. The bias of the remainder is far below anything an example could show.
  uint64_t below(uint64_t limit) { return next() % limit; }

  // In [-1, 1), with all 24 bits of a float's precision in use, so that sums really round.
  float unit() {
    return static_cast<float>(static_cast<int32_t>(next() >> 39) - (1 << 24)) * 0x1p-24f;
  }

 private:
  uint64_t state_;
};
