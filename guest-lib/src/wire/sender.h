// The thread that sends what nobody waits for. It lets the batch gather while the server is not
// idle (batch.h), and reads that it is where no other thread reads.
#ifndef OUTBOARD_SENDER_H
#define OUTBOARD_SENDER_H

#include "session/session.h"

// Starts the thread of a session. To be called once for each, when all are attached. Returns 0, or
// an errno value.
int sender_start(struct session *session);

#endif
