// Boxes of copies: checks them as commands name them (proto/api/copy.yaml), and makes of them what
// the driver is told.
#pragma once

#include <cstdint>

#include "base/driver.h"

namespace outboard {

class Session;

// The extents of a box: bytes of a row, rows of a slice, slices.
struct Box {
  uint64_t width = 0, height = 1, depth = 1;

  // Returns how many bytes it has; UINT64_MAX when they are more than that.
  uint64_t bytes() const;
};

// Where an end of a copy begins. In an array, x, y and z are byte, row and slice. In memory
// (`array` is null), they are the address, the pitch in bytes, and the rows of a slice.
struct BoxEnd {
  CUarray array = nullptr;
  uint64_t x = 0, y = 0, z = 0;
};

// Finds the end of a copy that a command names: x, y and z are as in BoxEnd, `array` is a handle or
// 0. False when not all of the box is the session's.
bool find_box(Session &s, uint64_t array, uint64_t x, uint64_t y, uint64_t z, const Box &box,
              BoxEnd *end);

// Returns the part of a box that begins at byte `offset`, counted as if its rows lay one behind the
// other: whole slices, whole rows, or a part of a row, of at most `most` bytes. Moves `end` there.
// `offset` is 0, or where such a part has ended.
Box part_of(const Box &whole, uint64_t offset, uint64_t most, BoxEnd *end);

// Return descriptions of copies. At `host` the rows of the box lie one behind the other.
CUDA_MEMCPY3D to_device(const BoxEnd &to, const void *host, const Box &box);
CUDA_MEMCPY3D to_host(void *host, const BoxEnd &from, const Box &box);
CUDA_MEMCPY3D on_device(const BoxEnd &to, const BoxEnd &from, const Box &box);

}  // namespace outboard
