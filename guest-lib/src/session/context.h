// Contexts, which live in the guest: the server has one warm context per device, and every context
// of the program stands for it.
#ifndef OUTBOARD_CONTEXT_H
#define OUTBOARD_CONTEXT_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/device.h"
#include "session/handle.h"

struct context {
  int device;
  unsigned flags;
  unsigned api_version;
  uint64_t id;
  _Bool primary;
  int retained;          // of a primary context
  _Atomic int attached;  // of a created one: by cuCtxCreate and cuCtxAttach
  _Bool was_released;    // a primary context whose last owner let go: reset when it is wanted again
  _Bool inactive;        // ... or that was reset: not to be used before it is retained again
  CUfunc_cache cache_config;
};

// The calling thread's current context, or NULL.
struct context *context_current(void);
uint64_t context_current_handle(void);
// Whether the program has ever created a context beside the primary ones.
extern _Atomic _Bool contexts_created;
struct context *context_find(CUcontext context);  // NULL: it is none
// The context given, or the current one for NULL; NULL when there is none.
struct context *context_given(CUcontext context);
// Why the current context cannot be used: there is none, it is destroyed, or inactive; 0 when it
// can.
CUresult context_unusable(void);

// Mints the primary contexts of `count` devices. Called once, at attach.
_Bool context_start(int count);
// The handle of a device's primary context, retained or not.
uint64_t context_primary(int device);
// A created one ends, with nothing of it left.
void context_drop(uint64_t handle);

#endif
