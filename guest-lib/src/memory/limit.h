// How much device memory a session has and may have, in bytes.
#ifndef OUTBOARD_LIMIT_H
#define OUTBOARD_LIMIT_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool budget_make(struct session *session);

// Sets the limits of a session. To be called once for each, at attach, before memory_start. Pinned
// memory that the device reaches does not count towards `limit`, up to `pinned` bytes. `asks`: the
// server understands MemoryRoom.
void memory_join(struct session *session, uint64_t limit, uint64_t pinned, _Bool asks);
// Makes them whole granules. memory_start does; to be called by who sets limits after that.
void budget_round(struct session *session);
// Returns the limit of all but that pinned memory.
uint64_t memory_limit(struct session *session);

// The caller of these three holds the memory lock (memory.h).
// Counts bytes of the device's memory towards the session's limit. False when there are not so many
// left; memory_make_room may help then, once. Near the limit the server is asked: kernels may have
// taken what the guest does not count.
_Bool memory_charge(struct session *session, uint64_t bytes);
// The same for memory that is there already, which the server is not asked about.
_Bool memory_charge_made(struct session *session, uint64_t bytes);
// Counts so many bytes less.
void memory_discharge(struct session *session, uint64_t bytes);
// Says in the log that so many bytes could not be had: as an error once, later as a warning.
void memory_log_shortage(struct session *session, uint64_t bytes);

// The callers of the rest do not hold the lock.
// Counts memory of the device that has no address in the window, as that of arrays, towards the
// limit. Waits for the session's work where that may free enough. CUDA_ERROR_OUT_OF_MEMORY, or the
// errors of that work.
CUresult memory_take_beside(struct session *session, uint64_t bytes);
// To be called when such memory is freed: once all work sent until now is known to be done, it
// counts no more, and `end` is called with the session and the memory lock held. `tell` is false
// after a reset of the context: the server has nothing of it any more, and is not told.
// CUDA_ERROR_OUT_OF_MEMORY when there is no memory to note that.
CUresult memory_leave_beside(struct session *session, uint64_t bytes,
                             void (*end)(struct session *session, void *object, _Bool tell),
                             void *object);

// Sets how many bytes of the device's memory the limits of the context take above what they took at
// first (device_raised), which counts towards the session's limit. The errors are those of
// memory_take_beside.
CUresult memory_raise(struct session *session, uint64_t bytes);

#endif
