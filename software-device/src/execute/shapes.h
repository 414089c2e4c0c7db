// Indices that are the same for all lanes or count up over them, where only the first lane's value
// may have been made (translate/shapes.cpp). Included by ops/ only.
#pragma once

#include "execute/lanes.h"

namespace softdev::SOFTDEV_ISA {
namespace {

// Makes the values of the other lanes, for those who look at each: `step` apart. It does no harm to
// do it again: they never change while a block runs.
inline __attribute__((noinline, cold)) void spread(Warp &w, uint32_t offset, uint32_t step) {
  uint32_t *values = slot<uint32_t>(w, offset);
  const uint32_t first = values[0];
  SOFTDEV_LANES values[l] = first + l * step;
}

}  // namespace
}  // namespace softdev::SOFTDEV_ISA
