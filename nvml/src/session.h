// The session of this process, where our libcuda.so.1 has one.
#ifndef OUTBOARD_SESSION_H
#define OUTBOARD_SESSION_H

#include "companion.h"

// Once, before the first session_find.
void session_prepare(void);

// False when there is none. Asks the library in the process and nobody else.
_Bool session_find(struct companion_session *session);

#endif
