// The one TCP connection of the process.
#ifndef OUTBOARD_CONNECTION_H
#define OUTBOARD_CONNECTION_H

#include <stddef.h>
#include <sys/uio.h>

#include "config.h"

// The socket, or -1.
extern int connection_fd;

// Takes a connected socket. 0, or an errno value.
int connection_adopt(int fd);
// The thread that read answers has stopped: a sender may have to read now. Cheap when nobody sends.
void connection_reader_left(void);

// Connects to the first server that answers. Returns 0, or -1 after logging what was tried.
int connection_open(const struct config *config);
void connection_close(void);

// Sends everything, reading answers meanwhile when the socket is full (both sides could wait for
// each other otherwise). 0, or an errno value; EFAULT when a payload was not readable, in which
// case zeros were sent in its place.
int connection_send(struct iovec *parts, int count);

// Plain blocking transfers with a time limit, for the attach dialogue. 0 or an errno value.
int connection_write(const void *bytes, size_t size, int timeout_ms);
int connection_read(void *bytes, size_t size, int timeout_ms);

#endif
