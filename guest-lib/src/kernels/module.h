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
  // The server's handle of it; 0 after a reset of the context, until it is used again.
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
  // Why the driver does not tell it (a CUresult), or 0: it was not asked, or has told it.
  _Atomic uint16_t attributes_refused[FUNCTION_ATTRIBUTES];
  struct occupancy *occupancy;  // what is known of it, see occupancy.c
  struct staged *staged;        // see staged_launch.c
  // For the kernel of a library: the session whose device has this one, and the same kernel on the
  // devices of other sessions (library.h). Otherwise NULL.
  struct session *session;
  struct function *_Atomic beside[SESSIONS_MAX];
};

// To be called after a reset of the context: ends all modules of the session, as its server has
// none of them any more. Libraries stay, and are loaded again when they are used.
void module_forget_all(struct session *session);
// Unloads the modules that were loaded in a created context of the session, which ends.
void module_destroy_of(struct session *session, uint64_t context);

#endif
