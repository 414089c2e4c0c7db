// Numbers of a guest that can be reckoned with.
#pragma once

#include <cstdint>

namespace outboard {

// Larger than any memory, and so small that products of two, and their sums, have no end.
constexpr int64_t kSaneMost = int64_t{1} << 46;

constexpr bool is_sane(int64_t value) { return value >= -kSaneMost && value <= kSaneMost; }

}  // namespace outboard
