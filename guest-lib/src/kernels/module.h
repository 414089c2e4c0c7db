// Modules and libraries, which are one thing here, and their kernels.
#ifndef OUTBOARD_MODULE_H
#define OUTBOARD_MODULE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

#define FUNCTION_ATTRIBUTES 32

struct function {
  uint64_t module;
  // What the server calls it; 0 after a reset of the context, until it is used again.
  _Atomic uint64_t wire;
  uint32_t index;
  char *name;
  uint32_t parameter_count;
  uint32_t parameter_bytes;
  struct wire_parameter *parameters;
  // The server has told what it can of the attributes (function.h).
  _Atomic _Bool described;
  _Atomic _Bool cluster_set;          // the program has set the cluster's size
  _Atomic uint32_t attributes_known;  // bit per CUfunction_attribute
  _Atomic int attributes[FUNCTION_ATTRIBUTES];
  struct occupancy *occupancy;  // what is known of it, see occupancy.c
  struct staged *staged;        // see staged_launch.c
  // Of a library: the session whose device has this one, and the same kernel on other sessions'
  // devices (library.h).
  unsigned session;
  struct function *_Atomic beside[SESSIONS_MAX];
};

// A reset of the context: modules end, libraries stay and are loaded again when they are used.
void module_forget_all(void);
// Unloads the modules loaded in a created context that ends.
void module_destroy_of(uint64_t context);

#endif
