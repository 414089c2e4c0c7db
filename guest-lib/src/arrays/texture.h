// Textures and surfaces: objects, which the driver names, and what they have in common with
// references (kernels/reference.h), which the guest names.
#ifndef OUTBOARD_TEXTURE_H
#define OUTBOARD_TEXTURE_H

#include <stdint.h>

#include "cuda_driver.h"

// Flags that the header of the driver has as macros.
enum {
  TEXTURE_READ_AS_INTEGER = 0x1,
  TEXTURE_FLAGS = 0x1 | 0x2 | 0x10 | 0x20 | 0x40,
  REFERENCE_OVERRIDE_FORMAT = 0x1,
};

// What commands say of a resource.
struct resource {
  uint32_t kind, format, channels;
  uint64_t array, address, width, height, pitch;
};

// CUDA_ERROR_INVALID_VALUE for what is no array, or no memory, of the program.
CUresult resource_read(const CUDA_RESOURCE_DESC *from, struct resource *to);

// A reset of the context, or the end of a created one.
void texture_forget_all(void);
void texture_destroy_of(uint64_t context);

#endif
