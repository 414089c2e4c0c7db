// Handles the guest mints: an index with a generation, so that a stale or made-up handle is told
// from a live one and never followed.
#ifndef OUTBOARD_HANDLE_H
#define OUTBOARD_HANDLE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

// A new handle of `kind` that stands for `object`, of the session that the thread is in (session.h)
// or of any; 0 when there are too many.
uint64_t handle_mint(enum wire_kind kind, void *object);
uint64_t handle_mint_for_any(enum wire_kind kind, void *object);

// The object behind a live handle of that kind, or NULL. The call follows the handle to its
// session.
void *handle_object(enum wire_kind kind, uint64_t handle);
// The session of a handle, also when it is retired; SESSION_ANY, too, when its index was used
// again.
unsigned handle_session(enum wire_kind kind, uint64_t handle);
// Whether it is live: the call does not follow it.
_Bool handle_is_live(enum wire_kind kind, uint64_t handle);

// CUDA_ERROR_INVALID_HANDLE unless it is live and of that kind.
static inline CUresult handle_check(enum wire_kind kind, uint64_t handle) {
  return handle_object(kind, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Calls `visit` with the object behind a live handle, which is not retired meanwhile; `visit` must
// not use this file. False when the handle is not live. For those whom the program does not keep
// from destroying the object at the same time.
_Bool handle_visit(enum wire_kind kind, uint64_t handle, void (*visit)(void *object, void *context),
                   void *context);

// Ends a handle and returns its object, or NULL when it was not live. The call means its session
// from now on. Its index stays taken until handle_recycle, to be called once the command that
// destroys it is in the batch: otherwise another thread's creation at the same index could reach
// the server first.
void *handle_retire(enum wire_kind kind, uint64_t handle);
void handle_recycle(enum wire_kind kind, uint64_t handle);

// Calls `visit` for every live handle of a kind that is of the thread's session or of any; it may
// retire the one it is given.
void handle_each(enum wire_kind kind, void (*visit)(uint64_t handle, void *object, void *context),
                 void *context);

static inline uint64_t handle_of(const void *driver_handle) {
  return (uint64_t)(uintptr_t)driver_handle;
}

#endif
