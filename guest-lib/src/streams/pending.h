// Work under way that may change the program's memory, or wait for the program to do so: functions
// of the program, and waits for values. While there is any, what a graph copies from the program's
// memory is not read before the graph's turn comes.
#ifndef OUTBOARD_PENDING_H
#define OUTBOARD_PENDING_H

#include <stdint.h>

// The last command put on `stream` is such work, or holds some.
void pending_note(uint64_t stream);
_Bool pending_any(void);
extern _Atomic _Bool pending_seen;  // whether there ever was any

#endif
