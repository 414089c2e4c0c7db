// The session of this process, where our libcuda.so.1 has one.
#ifndef OUTBOARD_SESSION_H
#define OUTBOARD_SESSION_H

#include "driver/companion.h"

#define DEVICES_SHOWN 8

// Once, before the first session_find.
void session_prepare(void);

// Its devices, as many as there are and have room; 0 when there is none. Asks the library in the
// process and nobody else.
unsigned session_find(struct companion_device devices[DEVICES_SHOWN]);

#endif
