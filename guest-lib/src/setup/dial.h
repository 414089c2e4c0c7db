// Connecting to a server, and plain transfers with a time limit: what comes before any frame.
#ifndef OUTBOARD_DIAL_H
#define OUTBOARD_DIAL_H

#include <stddef.h>

#include "setup/config.h"

// Connects to the first of the configured servers that answers. Returns the socket and sets *which
// to that server; or returns the negative of an errno value after what was tried is in the log,
// -EINTR when a signal of the program ended the wait (wait.h).
int dial(const struct config *config, const struct server_name **which);

// Send and receive exactly `size` bytes, within so many milliseconds; dial_read waits for ever
// where the number is negative. 0, or an errno value.
int dial_write(int fd, const void *bytes, size_t size, int timeout_ms);
int dial_read(int fd, void *bytes, size_t size, int timeout_ms);

#endif
