// Connecting to a server, and plain transfers with a time limit: what comes before any frame.
#ifndef OUTBOARD_DIAL_H
#define OUTBOARD_DIAL_H

#include <stddef.h>

#include "setup/config.h"

// A socket to the first server that answers, and which that is; or the negative of an
// errno value after logging what was tried; -EINTR: a signal ended the wait (wait.h).
int dial(const struct config *config, const struct server_name **which);

// Blocking, for so long at most; dial_read waits for ever where that is negative. 0 or an errno
// value.
int dial_write(int fd, const void *bytes, size_t size, int timeout_ms);
int dial_read(int fd, void *bytes, size_t size, int timeout_ms);

#endif
