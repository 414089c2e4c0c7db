// The whole frames that bytes begin with.
#pragma once

#include <cstdint>
#include <cstring>

#include "wire.h"

// Calls `each` with the header of every frame and where that begins, as long as it returns true.
// Where it stopped: no whole frame begins there, or `each` wanted no more.
template <class Each>
size_t walk_frames(const uint8_t *data, size_t size, Each each) {
  size_t at = 0;
  while (size - at >= sizeof(wire_header)) {
    wire_header header;
    memcpy(&header, data + at, sizeof header);
    if (header.size < sizeof header || header.size > size - at || !each(header, at)) break;
    at += header.size;
  }
  return at;
}
