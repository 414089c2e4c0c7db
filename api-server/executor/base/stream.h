// A stream of a session.
#pragma once

#include <cstdint>

#include "base/driver.h"

namespace outboard {

struct Stream {
  CUstream object = nullptr;
  // Whether the driver orders it with the legacy default stream.
  bool blocking = true;
  // How many batches of pages its next work comes after (Pages::order).
  uint64_t seen_pages = 0;

  // Whether this is the legacy default stream.
  bool legacy() const { return object == nullptr || object == CU_STREAM_LEGACY; }
  // Whether the driver runs work of the two in the order in which it was queued.
  bool ordered_with(const Stream &other) const {
    if (object == other.object || (legacy() && other.legacy())) return true;
    return (legacy() && other.blocking) || (other.legacy() && blocking);
  }
};

}  // namespace outboard
