// The TCP connection of a session.
#ifndef OUTBOARD_CONNECTION_H
#define OUTBOARD_CONNECTION_H

#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "session/session.h"
#include "setup/config.h"
#include "setup/tls.h"
#include "wire/decode.h"

static inline int connection_fd(const struct session *session) { return session->socket - 1; }

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool connection_make(struct session *session);

// Takes a connected socket, which is the session's from now on. Returns 0, or an errno value.
int connection_adopt(struct session *session, int fd);
// Whether its descriptor is that socket still: the program may have closed it, and have something
// of its own under the number.
_Bool connection_is_there(const struct session *session);
// Returns for how many milliseconds a thread may wait for the socket before it asks
// connection_is_silent.
int connection_look_ms(void);
// Whether the network is to be given up: for longer than the configured limit nothing has come back
// for what is on its way. For a thread that has waited in vain. Logs nothing.
_Bool connection_is_silent(struct session *session);

// From now on reads of the socket return after connection_look_ms at the latest. To be called once
// the session is there; the dialogue before it has time limits of its own.
void connection_watch(struct session *session);

// To be called when the thread that read answers has stopped: a sender may have to read now. Cheap
// when nobody sends.
void connection_reader_left(struct session *session);

// Connects to the first of the configured servers that answers. Returns 0, or an errno value after
// what was tried is in the log; EINTR when a signal of the program ended the wait (setup/wait.h).
int connection_open(struct session *session, const struct config *config);
// Returns the server that was connected to last, by any session.
const struct server_name *connection_server(void);
// Forgets how long the network has been silent, for a socket that takes the place of another.
void connection_begin_anew(struct session *session);
// Closes the socket of one session, or of all.
void connection_close_of(struct session *session);
void connection_close(void);
// Ends all that is on its way in either direction, of all sessions, and leaves the sockets open.
void connection_shut_down(void);

// As recv, for the thread that reads answers, to where decode_want says. That may be memory of the
// program that cannot be written: -1 with errno EFAULT, and nothing was received.
ssize_t connection_receive(struct session *session, struct decode *decode, int flags);
// Whether connection_receive has something although the socket may have nothing. Nobody but the
// thread that reads may ask, and it reads all that there is before it stops: others poll the
// socket.
_Bool connection_has_more(struct session *session);

// Sends everything, and reads answers meanwhile when the socket is full, because both sides could
// wait for each other otherwise. Changes `parts`. One thread at a time (the send lock of batch.c),
// with no lock of batch or answers. Returns 0, or an errno value; EFAULT when a payload was not
// readable, in which case zeros were sent in its place.
int connection_send(struct session *session, struct iovec *parts, int count);

// For wire/comeback.c. Puts another socket in the place of that of a session, whose number stays,
// and closes `fd`; `tls` is of that, or NULL, and the session's from now on; nobody sends or
// receives. Then sends what is kept, from a count of the stream
// on. Return 0, or an errno value.
int connection_replace(struct session *session, int fd, struct tls *tls);
int connection_send_kept(struct session *session, uint64_t from);
// Sends what the socket takes of a few bytes without waiting. Nobody sends meanwhile.
void connection_send_now(struct session *session, const void *bytes, size_t size);

// Blocking transfers of exactly `size` bytes, for the dialogue of Hello and Welcome. Where the
// timeout of connection_read is negative, it waits for ever. Each returns 0, or an errno value.
int connection_write(struct session *session, const void *bytes, size_t size, int timeout_ms);
int connection_read(struct session *session, void *bytes, size_t size, int timeout_ms);

#endif
