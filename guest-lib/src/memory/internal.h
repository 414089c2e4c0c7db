// What the files that manage memory know of each other. Everything here is called with the memory
// lock held, except where it says otherwise. Sizes are in bytes.
//
// An allocation that was freed is "leaving" until all work sent before is done, as that may still
// use it. Only then its memory is released.
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

// Rounds the limits of a session down to granules.

// Whether so much is taken that the server is asked for more.
_Bool memory_near_limit(struct session *session);
// Do what memory_charge and memory_discharge do for pinned memory that the device reaches: of that,
// only what is beyond the session's limit for pinned memory counts towards the other limit.
_Bool memory_charge_pinned(struct session *session, uint64_t bytes);
void memory_discharge_pinned(struct session *session, uint64_t bytes);
// Whether the session has a limit for pinned memory. Such memory is mapped by PinnedMap then.
_Bool memory_pinned_is_apart(struct session *session);
// Returns how much of the limit is not charged, or will not be once what is leaving is released.
uint64_t memory_unused(struct session *session);

// Adds `bytes`, which may be negative, to the size of all granules in which every allocation is
// leaving.
void memory_count_leaving(struct session *session, int64_t bytes);
// Whether anything waits to be released.
_Bool memory_leaves(struct session *session);
// Makes room for one call of memory_release_later. False when there is no memory for that.
_Bool memory_room_to_leave(struct session *session);
// Has memory_release called for an allocation that is leaving, once all work sent until now is
// known to be done. memory_room_to_leave was called before.
void memory_release_later(struct session *session, uint64_t address);
// Releases all that is leaving and whose work is known to be done.
void memory_release_settled(struct session *session);
// To be called after a reset of the context: forgets what is leaving. Memory without addresses and
// raised limits count no more.
void memory_forget_leaving(struct session *session);

// ---- variable.c ----

// Sets *found to the module's variable that holds `address`; if two sessions have one there, to
// that of `session`. False when there is none.
_Bool variable_find(struct session *session, uint64_t address, struct allocation *found);
// Whether there are variables. May be called without the lock.
_Bool variables_exist(void);
// Whether a variable at `address` is of a device whose memory is open to the session's (peer.h),
// which does not reach it all the same: drivers do not let variables be lent. Called without the
// lock.
_Bool variable_is_out_of_reach(struct session *session, uint64_t address);
// To be called after a reset of the context: forgets the variables of the session.
void variables_forget_all(struct session *session);

// ---- host_memory.c ----

// Sets all of *found but the session to the pinned memory that a device reaches at `address`: it is
// of no session. False when there is none.
_Bool host_find_allocation(uint64_t address, struct allocation *found);
// To be called after a reset of the context: ends the sharing of all that lies in the block with
// the session's device, which has nothing there any more.
void host_forget_block(struct session *session, const struct host_block *block);

#endif
