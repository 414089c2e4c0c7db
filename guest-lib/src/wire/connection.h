// The TCP connection of a session: everything here is about that of the session the thread is in.
#ifndef OUTBOARD_CONNECTION_H
#define OUTBOARD_CONNECTION_H

#include <stddef.h>
#include <sys/uio.h>

#include "session/session.h"
#include "setup/config.h"

// The sockets, by session: one more than it is, so that 0 is none.
extern int connection_numbers[SESSIONS_MAX];
static inline int connection_fd_of(unsigned session) { return connection_numbers[session] - 1; }
static inline int connection_fd(void) { return connection_fd_of(session_here()); }

// Takes a connected socket. 0, or an errno value.
int connection_adopt(int fd);
// How long to wait before one looks up, and for one that has waited in vain: whether the network is
// gone, or will be given up. Says nothing.
int connection_look_ms(void);
_Bool connection_is_silent(void);

// From now on a thread that reads looks up now and then. With a session: what comes before has
// limits of its own.
void connection_watch(void);

// The thread that read answers has stopped: a sender may have to read now. Cheap when nobody sends.
void connection_reader_left(void);

// Connects to the first of the servers that answers. Returns 0, or an errno value
// after logging what was tried; EINTR: a signal ended the wait (wait.h).
int connection_open(const struct config *config);
// The one that was connected to last.
const struct server_name *connection_server(void);
void connection_close_of(unsigned session);
// Of all sessions. The second ends what is on its way both ways, and leaves the sockets.
void connection_close(void);
void connection_shut_down(void);

// Sends everything, reading answers meanwhile when the socket is full (both sides could wait for
// each other otherwise). 0, or an errno value; EFAULT when a payload was not readable, in which
// case zeros were sent in its place.
int connection_send(struct iovec *parts, int count);

// Plain blocking transfers with a time limit, for the attach dialogue. 0 or an errno value.
int connection_write(const void *bytes, size_t size, int timeout_ms);
int connection_read(void *bytes, size_t size, int timeout_ms);

#endif
