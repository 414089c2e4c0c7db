// What the files that manage memory know of each other: the ways that memory of allocations goes.
// With the lock of memory held.
#ifndef OUTBOARD_MEMORY_INTERNAL_H
#define OUTBOARD_MEMORY_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "memory/host_block.h"
#include "memory/limit.h"
#include "memory/memory.h"
#include "memory/memory_range.h"
#include "memory/pool.h"
#include "memory/virtual_memory.h"
#include "memory/window.h"

// ---- limit.c: of the thread's session ----

// The same for pinned memory that the device reaches, which counts there beyond its own limit only.
_Bool memory_charge_pinned(uint64_t bytes);
void memory_discharge_pinned(uint64_t bytes);
// Whether it has one: the server maps it by PinnedMap then.
_Bool memory_pinned_is_apart(void);
void memory_log_shortage(uint64_t bytes);
// What is not charged, or leaving.
uint64_t memory_unused(void);

// So many bytes more are in granules whose every allocation is leaving.
void memory_count_leaving(int64_t bytes);
// Whether anything is leaving.
_Bool memory_leaves(void);
// Whether there is room for one more, which memory_release_later needs: memory_release is called
// for the allocation once no work sent until now uses it.
_Bool memory_room_to_leave(void);
void memory_release_later(uint64_t address);
// Gives back what no work uses any more.
void memory_release_settled(void);
void memory_forget_leaving(void);

// ---- memory.c ----

// Memory that counts towards the limit, in the window, for an allocation; CUDA_ERROR_OUT_OF_MEMORY
// at once when there is none.
CUresult memory_allocate(uint64_t size, int device, uint64_t context, uint64_t pool,
                         uint64_t *address);
// How much is taken for an allocation of a size.
uint64_t memory_capacity(uint64_t size);
// The allocation that begins at `address` is one no more, but work may still use its memory.
// `capacity`: how much could lie there.
CUresult memory_leave(uint64_t address, uint64_t *capacity);
// It is one again, of another size within its capacity.
void memory_return(uint64_t address, uint64_t size, uint64_t context, uint64_t pool);
// It has left, and no work uses it any more.
void memory_release(uint64_t address);

// ---- memory_range.c ----

_Bool memory_find_locked(uint64_t address, struct allocation *found);

// ---- variable.c ----

_Bool variable_find(uint64_t address, struct allocation *found);
_Bool variables_exist(void);
// Whether it is a variable of a peer that the thread's device was given access to, and cannot have
// it: no driver lets go of the memory of variables. Without the lock.
_Bool variable_is_out_of_reach(uint64_t address);
void variables_forget_all(void);

// ---- host_memory.c ----

_Bool host_find_allocation(uint64_t address, struct allocation *found);
// The device has nothing of the block any more.
void host_forget_block(const struct host_block *block);

// ---- physical.c ----

// A new one with one reference; NULL when it cannot be had. The server is yet to be told.
struct physical *physical_new(uint64_t size, int device, _Bool shareable);
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

#endif
