// What the files that manage memory know of each other.
// With the lock of memory held.
#ifndef OUTBOARD_MEMORY_INTERNAL_H
#define OUTBOARD_MEMORY_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "memory/host_block.h"
#include "memory/limit.h"
#include "memory/memory.h"
#include "memory/memory_range.h"
#include "memory/window.h"
#include "session/session.h"

// ---- limit.c ----

// As memory_charge and memory_discharge, for pinned memory that the device reaches: it counts
// towards the limit beyond one of its own only.
_Bool memory_charge_pinned(struct session *session, uint64_t bytes);
void memory_discharge_pinned(struct session *session, uint64_t bytes);
// Whether it has one: the server maps it by PinnedMap then.
_Bool memory_pinned_is_apart(struct session *session);
// What is not charged, or leaving.
uint64_t memory_unused(struct session *session);

// So many bytes more are in granules whose every allocation is leaving.
void memory_count_leaving(struct session *session, int64_t bytes);
// Whether anything is leaving.
_Bool memory_leaves(struct session *session);
// Whether there is room for one more, which memory_release_later needs: memory_release is called
// for the allocation once no work sent until now uses it.
_Bool memory_room_to_leave(struct session *session);
void memory_release_later(struct session *session, uint64_t address);
// Gives back what no work uses any more.
void memory_release_settled(struct session *session);
void memory_forget_leaving(struct session *session);

// ---- variable.c ----

_Bool variable_find(struct session *session, uint64_t address, struct allocation *found);
_Bool variables_exist(void);
// Whether it is a variable of a peer that the thread's device was given access to, and cannot have
// it: no driver lets go of the memory of variables. Without the lock.
_Bool variable_is_out_of_reach(struct session *session, uint64_t address);
void variables_forget_all(struct session *session);

// ---- host_memory.c ----

_Bool host_find_allocation(uint64_t address, struct allocation *found);
// The device has nothing of the block any more.
void host_forget_block(struct session *session, const struct host_block *block);

#endif
