// Handles that the guest mints: an index with a generation, so that a stale or made-up handle is
// told from a live one and never followed. A handle is live from its minting until it is retired.
// Functions that find an object take no lock.
#ifndef OUTBOARD_HANDLE_H
#define OUTBOARD_HANDLE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

// Mint a handle of `kind` that stands for `object`, which is not NULL: of `session`, or of any
// session. 0 when there are too many, or no memory.
uint64_t handle_mint(struct session *session, enum wire_kind kind, void *object);
uint64_t handle_mint_for_any(enum wire_kind kind, void *object);

// Returns the object behind a live handle of that kind, or NULL. The thread follows the handle into
// its session (session_follow).
void *handle_object(enum wire_kind kind, uint64_t handle);
// Does the same for who knows the session already: the thread stays where it is.
void *handle_peek(enum wire_kind kind, uint64_t handle);
// Returns the session of a handle, also of a retired one. NULL when the handle is for any,
// or is none of that kind, or its index was used again.
struct session *handle_session(enum wire_kind kind, uint64_t handle);
// Whether the handle is live. The thread stays in its session.
_Bool handle_is_live(enum wire_kind kind, uint64_t handle);

// CUDA_ERROR_INVALID_HANDLE unless the handle is live and of that kind. As handle_object, the
// thread follows it.
static inline CUresult handle_check(enum wire_kind kind, uint64_t handle) {
  return handle_object(kind, handle) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

// Calls `visit` with the object behind a live handle, which is not retired meanwhile; `visit` must
// not call functions of this header. False when the handle is not live. For callers that the
// program does not know of, so that another thread may destroy the object at the same time.
_Bool handle_visit(enum wire_kind kind, uint64_t handle, void (*visit)(void *object, void *context),
                   void *context);

// Ends a handle and returns its object, or NULL when it was not live. The thread is in the handle's
// session from now on. Its index stays taken until handle_recycle.
void *handle_retire(enum wire_kind kind, uint64_t handle);
// Lets the index of a retired handle be used again. To be called once, when the command that
// destroys the object is in the batch: before that, another thread's creation at the same index
// could reach the server first.
void handle_recycle(enum wire_kind kind, uint64_t handle);

// Calls `visit` for every live handle of a kind that is of the session or of any session; `visit`
// may retire the one it is given.
void handle_each(struct session *session, enum wire_kind kind,
                 void (*visit)(uint64_t handle, void *object, void *context), void *context);

// Returns the number in a handle as the driver API has it (CUstream, CUevent, ...).
static inline uint64_t handle_of(const void *driver_handle) {
  return (uint64_t)(uintptr_t)driver_handle;
}

#endif
