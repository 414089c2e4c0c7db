// What the files that give out memory know of each other. Everything here is called with the memory
// lock held, except for pool_name, which needs none.
#ifndef OUTBOARD_ALLOCATION_INTERNAL_H
#define OUTBOARD_ALLOCATION_INTERNAL_H

#include <stdint.h>

#include "allocation/pool.h"
#include "allocation/virtual_memory.h"
#include "cuda_driver.h"
#include "session/session.h"

// ---- physical.c ----

// Makes a piece of memory of `size` bytes, which count towards the session's limit, with one
// reference. NULL when the limit leaves no room, or there are too many handles or no memory. The
// caller tells the server of it.
struct physical *physical_new(struct session *session, uint64_t size, int device, _Bool shareable);
// Returns the piece behind a handle, if the program has references to it, else NULL.
struct physical *physical_find(uint64_t handle);
// Ends a piece if neither references nor mappings are left, and tells the server of the thread's
// session, which it is of. Returns what posting returns.
CUresult physical_drop_unused(struct physical *physical);

// ---- pool_sharing.c ----

// Gives a pool a random name, by which other processes can know it. CUDA_ERROR_OPERATING_SYSTEM
// when the system has no random numbers.
CUresult pool_name(struct pool *pool);

// ---- stream_memory.c, pool.c: what memory calls (memory/pool_hooks.h says what each does) ----

void pool_release_settled(void);
_Bool pool_waits(void);
void pool_forget_all(struct session *session);
void pool_count_free(uint64_t pool, uint64_t size);

#endif
