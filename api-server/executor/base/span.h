// Bytes that a strided operation touches, for range checks. Saturates instead of wrapping: a range
// that does not fit 64 bits is in nobody's memory.
#pragma once

#include <cstdint>

namespace outboard {

inline uint64_t span_1d(uint64_t count, uint64_t size) {
  uint64_t bytes;
  return __builtin_mul_overflow(count, size, &bytes) ? UINT64_MAX : bytes;
}

// `height` rows of `width` bytes, `pitch` apart. Rows wider than the pitch are the driver's to
// refuse: the range counts as if they did not overlap.
inline uint64_t span_2d(uint64_t pitch, uint64_t height, uint64_t width) {
  if (height == 0 || width == 0) return 0;
  uint64_t rows, bytes;
  if (__builtin_mul_overflow(height - 1, pitch, &rows)) return UINT64_MAX;
  return __builtin_add_overflow(rows, width, &bytes) ? UINT64_MAX : bytes;
}

// `depth` slices of `rows` rows, of which as many as `height` count in the last.
inline uint64_t span_3d(uint64_t pitch, uint64_t rows, uint64_t depth, uint64_t height,
                        uint64_t width) {
  const uint64_t last = span_2d(pitch, height, width);
  if (depth <= 1 || last == 0) return depth ? last : 0;
  uint64_t bytes;
  return __builtin_add_overflow(span_1d(span_1d(pitch, rows), depth - 1), last, &bytes) ? UINT64_MAX
                                                                                        : bytes;
}

}  // namespace outboard
