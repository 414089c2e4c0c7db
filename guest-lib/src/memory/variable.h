// Variables of modules, which lie where the driver put them.
#ifndef OUTBOARD_VARIABLE_H
#define OUTBOARD_VARIABLE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

// Notes that the program knows a variable of `size` bytes of the session, at an address of its
// device. A managed one is shared with the host already (pages_share_variable). The memory lock
// is not held here and below.
void memory_add_variable(struct session *session, uint64_t address, uint64_t size, _Bool managed);
// Forgets it, and ends the sharing of a managed one.
void memory_remove_variable(struct session *session, uint64_t address);

#endif
