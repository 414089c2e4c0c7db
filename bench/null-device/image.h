// What a program hands over as device code: its kernels by name, with their parameters. They are
// read from the PTX, of which nothing else is looked at.
#ifndef NULL_DEVICE_IMAGE_H
#define NULL_DEVICE_IMAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "cuda_driver.h"

struct parameter {
  uint32_t offset;
  uint32_t size;
};

struct kernel {
  struct kernel *next;
  const void *image;  // the library it is of
  char *name;
  struct parameter *parameters;
  uint32_t parameter_count;
};

// The kernels of PTX, a fatbin or its wrapper, newest last. CUDA_ERROR_NO_BINARY_FOR_GPU when there
// is no PTX in it.
CUresult image_kernels(const void *image, struct kernel **kernels);
void image_free(struct kernel *kernels);

// For PTX of `length` bytes: adds its kernels at *tail. False when out of memory or when an
// entry cannot be understood.
bool ptx_kernels(const char *ptx, uint64_t length, struct kernel **tail);

#endif
