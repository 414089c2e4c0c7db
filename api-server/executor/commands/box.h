// Boxes as commands name them (proto/api/copy.yaml), checked, and what the driver is told of them.
#pragma once

#include <cstdint>

#include "base/driver.h"

namespace outboard {

class Session;

// The width in bytes.
struct Box {
  uint64_t width = 0, height = 1, depth = 1;

  uint64_t bytes() const;  // saturates
};

// In an array: byte, row and slice. In memory: address, pitch, and rows of a slice.
struct BoxEnd {
  CUarray array = nullptr;
  uint64_t x = 0, y = 0, z = 0;
};

// Whether the box is the session's as a whole; `array` is a handle, or 0.
bool find_box(Session &s, uint64_t array, uint64_t x, uint64_t y, uint64_t z, const Box &box,
              BoxEnd *end);

// The part that begins at byte `offset` of a box whose rows lie one behind the other: whole slices,
// or rows, or a part of one, at most `most` bytes. Moves `end` there. `offset` is where such a part
// ended before, or 0.
Box part_of(const Box &whole, uint64_t offset, uint64_t most, BoxEnd *end);

// Descriptions of copies. `host` is packed.
CUDA_MEMCPY3D to_device(const BoxEnd &to, const void *host, const Box &box);
CUDA_MEMCPY3D to_host(void *host, const BoxEnd &from, const Box &box);
CUDA_MEMCPY3D on_device(const BoxEnd &to, const BoxEnd &from, const Box &box);

}  // namespace outboard
