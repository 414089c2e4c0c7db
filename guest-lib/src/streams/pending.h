// Work under way that may change the program's memory, or wait for the program to do so: functions
// of the program, and waits for values. While there is any, what a graph copies from the program's
// memory is not read before the graph's turn comes.
#ifndef OUTBOARD_PENDING_H
#define OUTBOARD_PENDING_H

#include <stdint.h>

// Notes that the last command put on `stream`, of the thread's session, is such work or holds some.
void pending_note(uint64_t stream);
// Whether any such work, of any session, is not known to be done.
_Bool pending_any(void);
// Whether there ever was any: cheaper to ask first.
extern _Atomic _Bool pending_seen;

#endif
