// Textures and surfaces: objects, which the driver names, and what they have in common with
// references (kernels/reference.h), which the guest names.
#ifndef OUTBOARD_TEXTURE_H
#define OUTBOARD_TEXTURE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

// Flags that the header of the driver has as macros.
enum {
  TEXTURE_READ_AS_INTEGER = 0x1,
  TEXTURE_FLAGS = 0x1 | 0x2 | 0x10 | 0x20 | 0x40,
  REFERENCE_OVERRIDE_FORMAT = 0x1,
};

// A resource as commands describe it.
struct resource {
  uint32_t kind, format, channels;
  uint64_t array, address, width, height, pitch;
};

// Sets *to to what a program describes, and brings the thread into the session of that.
// CUDA_ERROR_INVALID_VALUE for what is no array, or no memory, of the program.
CUresult resource_read(const CUDA_RESOURCE_DESC *from, struct resource *to);

// To be called after a reset of the context: forgets all objects of the session.
void texture_forget_all(struct session *session);
// Destroys the objects that were made in a created context of the session that ends.
void texture_destroy_of(struct session *session, uint64_t context);

#endif
