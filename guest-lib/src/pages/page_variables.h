// Managed variables of libraries. With several sessions such a variable is one for the host and the
// devices of all sessions that have its library (page_variables.c). The program knows it by the
// address that it has on one of the devices, its home. All functions take the lock of pages
// themselves.
#ifndef OUTBOARD_PAGE_VARIABLES_H
#define OUTBOARD_PAGE_VARIABLES_H

#include <stdint.h>

#include "session/session.h"

// How many such variables there are. Without any, nothing here costs more than reading this.
extern _Atomic unsigned pages_variables;
// How often any of them was moved from one device to another.
extern _Atomic uint64_t pages_moves;
// Notes that the session's device has the variable that the program knows at `address` at the
// address `there`.
void pages_variable_lies(struct session *session, uint64_t address, uint64_t there);
// Returns where the session's device has what the program knows at `address`; 0 when that is in no
// such variable, or the device does not have it.
uint64_t pages_variable_here(struct session *session, uint64_t address);
// Moves the variables on the pages at `address` to the session's device, once the work of the
// device that has them is done. No lock may be held, here and below.
void pages_bring_variable(struct session *session, uint64_t address);
// Does so for all variables that the session's device has.
void pages_bring_variables(struct session *session);
// Moves them to their home.
void pages_send_home(uint64_t address);
// To be called before a reset of the context unloads all libraries of the session: moves what that
// has of others' variables home.
void pages_leave_session(struct session *session);

#endif
