// Arrays and mipmapped arrays: their shapes, which only the guest knows whole.
#ifndef OUTBOARD_ARRAY_H
#define OUTBOARD_ARRAY_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

// Flags of a descriptor, which the header of the driver has as macros.
enum {
  ARRAY_LAYERED = 0x1,
  ARRAY_SURFACE = 0x2,
  ARRAY_CUBE = 0x4,
  ARRAY_GATHER = 0x8,
  ARRAY_DEPTH = 0x10,
  ARRAY_COLOR = 0x20,
  ARRAY_SPARSE = 0x40,
  ARRAY_DEFERRED = 0x80,
  ARRAY_VIDEO = 0x100,
};

struct array {
  uint64_t wire;  // handle, which is the program's, too
  uint64_t context;
  uint64_t bytes;  // of memory; 0 of a level
  CUDA_ARRAY3D_DESCRIPTOR descriptor;
  unsigned element;         // bytes
  unsigned levels;          // of a mipmapped array; 0 of an array
  struct array *mipmapped;  // of which it is a level
  struct array **level;     // of a mipmapped array; NULL where nobody asked
};

// Return the array, or mipmapped array, behind a handle; NULL when it is none. The thread follows
// the handle into its session.
struct array *array_find(CUarray handle);
struct array *array_find_mipmapped(CUmipmappedArray handle);

// To be called after a reset of the context: ends all arrays of the session. The server has none of
// them any more.
void array_forget_all(struct session *session);
// Destroys the arrays of a created context of the session, which ends.
void array_destroy_of(struct session *session, uint64_t context);

#endif
