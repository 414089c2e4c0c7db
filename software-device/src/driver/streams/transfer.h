// Copies and fills, with CUDA's rules on what a call waits for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "cuda_driver.h"
#include "streams/stream.h"

namespace softdev::driver {

// What the caller says an address is. kEither: the driver finds out.
enum class Side { kHost, kDevice, kEither };

// One end of a copy: rows of `width` bytes, `pitch` apart, in slices `slice` apart.
struct End {
  uint64_t address = 0;
  size_t pitch = 0;
  size_t slice = 0;
  Side side = Side::kEither;
};

struct Box {
  size_t width = 0;
  size_t height = 1;
  size_t depth = 1;
};

// An asynchronous copy returns when it is queued, except that the program may use pageable host
// memory again at once. A synchronous one returns when it is done if the host is involved.
CUresult copy(const StreamRef &stream, const End &to, const End &from, const Box &box,
              bool asynchronous);

// Fills with a pattern of 1, 2 or 4 bytes; box.width is in bytes.
CUresult fill(const StreamRef &stream, const End &to, const Box &box, uint32_t pattern,
              unsigned pattern_bytes, bool asynchronous);

// Waits for a stream, prints what kernels printed, and returns the context's error.
CUresult synchronise(const StreamRef &stream);
CUresult synchronise(const std::shared_ptr<Context> &context);

}  // namespace softdev::driver
