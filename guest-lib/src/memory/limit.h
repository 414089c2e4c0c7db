// How much device memory a session has and may have.
#ifndef OUTBOARD_LIMIT_H
#define OUTBOARD_LIMIT_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool budget_make(struct session *session);

// The limits of a session; memory_start sets those of the first. `pinned`: of pinned memory that
// does not count towards the other.
void memory_join(struct session *session, uint64_t limit, uint64_t pinned);
uint64_t memory_limit(struct session *session);

// With the lock of memory held (memory.h): counts bytes of the device's memory against the
// session's limit. False when there are not so many left; memory_make_room may help then, once.
_Bool memory_charge(struct session *session, uint64_t bytes);
void memory_discharge(struct session *session, uint64_t bytes);
// Says in the log that so many bytes could not be had.
void memory_log_shortage(struct session *session, uint64_t bytes);

// Memory of the device that has no address, as that of arrays: it counts towards the limit like
// what has. Once nothing uses what was left any more, `end` is called with the lock of memory held;
// it is not to tell the server when everything is forgotten.
CUresult memory_take_beside(struct session *session, uint64_t bytes);
CUresult memory_leave_beside(struct session *session, uint64_t bytes,
                             void (*end)(void *object, _Bool tell), void *object);

// What the context's limits were raised by, in bytes of the device's memory, counts so, too.
CUresult memory_raise(struct session *session, uint64_t bytes);

#endif
