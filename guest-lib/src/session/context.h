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
  _Bool inactive;        // one that was released or reset: not usable before it is retained again
  CUfunc_cache cache_config;
};

// Returns the calling thread's current context; NULL when it has none, or a destroyed one.
struct context *context_current(void);
// Returns the handle of the current context, which may be destroyed; 0 when there is none.
uint64_t context_current_handle(void);
// Whether the program has ever created a context beside the primary ones.
extern _Atomic _Bool contexts_created;
// Returns the context behind a handle of the program; NULL when it is none.
struct context *context_find(CUcontext context);
// Returns the context behind a handle, or the current one for NULL; NULL when there is none.
struct context *context_given(CUcontext context);
// Says why the current context cannot be used: CUDA_ERROR_INVALID_CONTEXT when there is none,
// CUDA_ERROR_CONTEXT_IS_DESTROYED when it is destroyed or inactive, CUDA_SUCCESS when it can.
CUresult context_unusable(void);
// Says why context_given has found none: CUDA_ERROR_INVALID_CONTEXT, or of a current one that was
// destroyed CUDA_ERROR_CONTEXT_IS_DESTROYED.
static inline CUresult context_missing(CUcontext context) {
  return context ? CUDA_ERROR_INVALID_CONTEXT : context_unusable();
}
// Whether the context of a handle is inactive: what was made in it is gone for the program, though
// the server has it until the context is retained again.
_Bool context_is_inactive(uint64_t handle);

// Mints the primary contexts of `count` devices. To be called at attach. False without memory.
_Bool context_start(int count);
// Returns the handle of a device's primary context, retained or not. `device` exists.
uint64_t context_primary(int device);
// Ends a created context of which nothing is left: frees it and its handle, and takes it from the
// top of the thread's stack.
void context_drop(uint64_t handle);

#endif
