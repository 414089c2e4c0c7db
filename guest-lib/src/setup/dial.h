// Connecting to a server, and plain transfers with a time limit: what comes before any frame.
#ifndef OUTBOARD_DIAL_H
#define OUTBOARD_DIAL_H

#include <stddef.h>

#include "setup/config.h"
#include "setup/tls.h"

// Connects to the first of the configured servers that answers, and shakes hands where it is to be
// TLS. Returns the socket and sets *which to that server and *tls to what tls_close is for, or to
// NULL; or returns the negative of an errno value after what was tried is in the log,
// -EINTR when a signal of the program ended the wait (wait.h).
int dial(const struct config *config, const struct server_name **which, struct tls **tls);

// Send and receive exactly `size` bytes, within so many milliseconds; dial_read waits for ever
// where the number is negative. `tls` may be NULL. 0, or an errno value.
int dial_write(int fd, struct tls *tls, const void *bytes, size_t size, int timeout_ms);
int dial_read(int fd, struct tls *tls, void *bytes, size_t size, int timeout_ms);

#endif
