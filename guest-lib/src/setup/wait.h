// Waiting for a socket before there is a session, in a process that has signals of its own. A
// handler for SIGINT or SIGTERM that runs meanwhile ends the wait: an interpreter only does what
// its handler was told once our call has returned. Other signals, timers and children above all, do
// not: their handlers run at once and the wait goes on. (Without a handler the two end the process,
// as ever.)
#ifndef OUTBOARD_WAIT_H
#define OUTBOARD_WAIT_H

#include <stdint.h>

// Between these two, in one thread, no such handler runs unnoticed: one that would run between two
// waits ends the next one.
void wait_begin(void);
void wait_end(void);

// Until one of poll's `events` is there. 0, ETIMEDOUT at the deadline, as clock_ms() has it (below
// 0: there is none), EINTR when a handler has ended it, or another errno value.
int wait_for(int fd, short events, int64_t deadline);

#endif
