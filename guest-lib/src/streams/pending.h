// Work under way that may change the program's memory, or wait for the program to do so: functions
// of the program, and waits for values. While there is any, what a graph copies from the program's
// memory is not read before the graph's turn comes.
#ifndef OUTBOARD_PENDING_H
#define OUTBOARD_PENDING_H

#include <stdint.h>

#include "session/session.h"

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool pending_make(struct session *session);

// Notes that the last command put on `stream`, a stream of `session`, is such work or holds some.
void pending_note(struct session *session, uint64_t stream);
// Whether any such work, of any session, is not known to be done.
_Bool pending_any(void);
// Whether there ever was any: cheaper to ask first.
extern _Atomic _Bool pending_seen;

#endif
