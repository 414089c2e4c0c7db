// Managed variables of a library that several devices have: one for all of them and the host.
#ifndef OUTBOARD_PAGE_VARIABLES_H
#define OUTBOARD_PAGE_VARIABLES_H

#include <stdint.h>

#include "session/session.h"

// With several sessions such a variable is one for the devices of all that have its library
// (page_variables.c). Variables there are: without any, nothing here costs more than reading this.
extern _Atomic unsigned pages_variables;
// Times that any was moved from one to another.
extern _Atomic uint64_t pages_moves;
// Where the thread's device has the one at an address; and what that is, 0 when it does not have
// it.
void pages_variable_lies(struct session *session, uint64_t address, uint64_t there);
uint64_t pages_variable_here(struct session *session, uint64_t address);
// Its bytes become the thread's device's, once no work of another's uses them; those of all that
// the device has; and those of the device at whose address it is. Without locks.
void pages_bring_variable(uint64_t address);
void pages_bring_variables(void);
void pages_send_home(uint64_t address);
// The thread's device is about to lose all libraries.
void pages_leave_session(void);

#endif
