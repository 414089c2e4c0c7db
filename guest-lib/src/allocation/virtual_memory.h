// Memory that the program manages itself: pieces without addresses, and what maps them. The memory
// lock guards them.
#ifndef OUTBOARD_VIRTUAL_MEMORY_H
#define OUTBOARD_VIRTUAL_MEMORY_H

#include <stdint.h>

#include "cuda_driver.h"
#include "memory/window.h"
#include "wire.h"

// A piece of memory. It lives as long as the program has references to it or something maps it; its
// handle is the program's only while there are references.
struct physical {
  uint64_t handle;
  uint64_t size;
  int device;
  _Bool shareable;
  _Bool imported;  // it is another process's
  unsigned references;
  unsigned mappings;
};

// Whether [address, address + size) is whole granules, at least one, and does not wrap around.
static inline _Bool granular(uint64_t address, uint64_t size) {
  return size && !((address | size) & (window_granule() - 1)) && size <= UINT64_MAX - address;
}

#endif
