// What the files that give out memory know of each other. With the lock of memory held.
#ifndef OUTBOARD_ALLOCATION_INTERNAL_H
#define OUTBOARD_ALLOCATION_INTERNAL_H

#include <stdint.h>

#include "allocation/pool.h"
#include "allocation/virtual_memory.h"
#include "cuda_driver.h"
#include "session/session.h"

// ---- physical.c ----

// A new one with one reference; NULL when it cannot be had. The server is yet to be told.
struct physical *physical_new(struct session *session, uint64_t size, int device, _Bool shareable);
// The one that the program has a reference to, or NULL.
struct physical *physical_find(uint64_t handle);
// Ends it if neither references nor mappings are left, and tells the server.
CUresult physical_drop_unused(struct physical *physical);

// ---- pool_sharing.c ----

// Gives it a name.
CUresult pool_name(struct pool *pool);

// ---- stream_memory.c: what was freed in a stream, and is used by its work until then ----

// Gives back what was freed on streams that are known to have got there.
void pool_release_settled(void);
// Whether anything waits for that.
_Bool pool_waits(void);
// All memory is gone.
void pool_forget_all(void);

// ---- pool.c ----

// `size` bytes of a pool are freed. The handle may be 0, or stale.
void pool_count_free(uint64_t pool, uint64_t size);

#endif
