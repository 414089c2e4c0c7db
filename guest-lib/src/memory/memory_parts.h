// What the files that manage device memory share: a lock, an account, and the ways that memory of
// allocations goes. Everything but the lock itself is used with the lock held.
#ifndef OUTBOARD_MEMORY_PARTS_H
#define OUTBOARD_MEMORY_PARTS_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "memory/memory.h"
#include "memory/window.h"

extern pthread_mutex_t memory_lock;

// ---- account.c: of the thread's lane ----

// Counts bytes of the device's memory against the session's limit. False when there are not so many
// left; memory_make_room may help then, once.
_Bool memory_charge(uint64_t bytes);
void memory_discharge(uint64_t bytes);
// The same for pinned memory that the device reaches, which counts there beyond its own limit only.
_Bool memory_charge_pinned(uint64_t bytes);
void memory_discharge_pinned(uint64_t bytes);
// Whether it has one: the server maps it by PinnedMap then.
_Bool memory_pinned_is_apart(void);
void memory_log_shortage(uint64_t bytes);
uint64_t memory_limit(void);
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

// Waits until what was freed is used by no work any more, and gives it back. The lock is let go
// meanwhile.
CUresult memory_make_room(void);

uint64_t memory_next_id(void);  // names an allocation, unlike any other

// Memory of the account, in the window, for an allocation; CUDA_ERROR_OUT_OF_MEMORY at once when
// there is none.
CUresult memory_allocate(uint64_t size, int device, uint64_t context, uint64_t pool,
                         uint64_t *address);
_Bool memory_find_locked(uint64_t address, struct allocation *found);
// How much is taken for an allocation of a size.
uint64_t memory_capacity(uint64_t size);
// The allocation that begins at `address` is one no more, but work may still use its memory.
// `capacity`: how much could lie there.
CUresult memory_leave(uint64_t address, uint64_t *capacity);
// It is one again, of another size within its capacity.
void memory_return(uint64_t address, uint64_t size, uint64_t context, uint64_t pool);
// It has left, and no work uses it any more.
void memory_release(uint64_t address);

// ---- variable.c ----

_Bool variable_find(uint64_t address, struct allocation *found);
_Bool variables_exist(void);
// Whether it is a variable of a peer that the thread's device was given access to, and cannot have
// it: no driver lets go of the memory of variables. Without the lock.
_Bool variable_is_out_of_reach(uint64_t address);
void variables_forget_all(void);

#endif
