// The processes of this environment that have a session: each has a Unix socket of its number in
// the folder that OUTBOARD_RELEASE names (guest-lib/src/driver/release_socket.c).
#ifndef OUTBOARD_SESSIONS_H
#define OUTBOARD_SESSIONS_H

#include <stdint.h>

// Asks each for what `what` says ("release" or "end"), and waits for the answers, until `deadline`
// (clock_ms) at most. What a process without a listener has left behind is removed. Says what is
// worth saying (say).
void sessions_ask(const char *folder, const char *what, int64_t deadline);

// One line on stdout, where Lambda takes it for the function's log. `detail` is only shown with
// OUTBOARD_LOG=info or more.
void say(_Bool detail, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
