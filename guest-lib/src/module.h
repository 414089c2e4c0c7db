// Modules and libraries, which are one thing here, and their kernels.
#ifndef OUTBOARD_MODULE_H
#define OUTBOARD_MODULE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "wire.h"

#define FUNCTION_ATTRIBUTES 32

struct function {
  uint64_t module;
  char *name;
  uint32_t parameter_count;
  uint32_t parameter_bytes;
  struct wire_parameter *parameters;
  _Atomic uint32_t attributes_known;  // bit per CUfunction_attribute
  _Atomic int attributes[FUNCTION_ATTRIBUTES];
};

// The function or kernel behind a handle, or NULL.
struct function *function_find(const void *handle);

// All handles end: a reset of the context.
void module_forget_all(void);
// Unloads the modules loaded in a created context that ends.
void module_destroy_of(uint64_t context);

#endif
