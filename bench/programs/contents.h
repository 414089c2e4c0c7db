// What fills the memory of programs whose bytes go from one GPU to another: no piece of it is all
// zeros, and no two are the same.
#ifndef BENCH_CONTENTS_H
#define BENCH_CONTENTS_H

#include <stdint.h>

#include "session.h"

#define CONTENTS_PIECE (1u << 20)

static inline uint64_t contents_word(uint64_t index) {
  return (index + 1) * UINT64_C(0x9E3779B97F4A7C15);
}

static inline void contents_fill(CUdeviceptr memory, size_t bytes) {
  static uint64_t words[CONTENTS_PIECE / sizeof(uint64_t)];
  for (size_t at = 0; at < bytes; at += CONTENTS_PIECE) {
    const size_t length = bytes - at < CONTENTS_PIECE ? bytes - at : CONTENTS_PIECE;
    for (size_t i = 0; i < length / sizeof *words; i++)
      words[i] = contents_word(at / sizeof *words + i);
    CHECK(cuMemcpyHtoD_v2(memory + at, words, length));
  }
}

static inline void contents_check(CUdeviceptr memory, size_t bytes) {
  static uint64_t words[CONTENTS_PIECE / sizeof(uint64_t)];
  for (size_t at = 0; at < bytes; at += CONTENTS_PIECE) {
    const size_t length = bytes - at < CONTENTS_PIECE ? bytes - at : CONTENTS_PIECE;
    CHECK(cuMemcpyDtoH_v2(words, memory + at, length));
    for (size_t i = 0; i < length / sizeof *words; i++) {
      if (words[i] != contents_word(at / sizeof *words + i))
        FAIL("byte %zu of the memory is not what it was", at + i * sizeof *words);
    }
  }
}

#endif
