// A session survives a cut of its connection: a thread of ours connects again, tells the server how
// many bytes have come, is told how many the server has, and both send what the other lacks
// (docs/surviving-a-cut.md). Who sends or waits for an answer waits meanwhile, and notices nothing
// else. Frames do not know of it.
//
// For one session, with a server that offers it. What is kept and counted is in the clear: another
// connection by TLS has other keys. Where there is none, session->comeback is NULL and nothing is
// kept.
#ifndef OUTBOARD_COMEBACK_H
#define OUTBOARD_COMEBACK_H

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "control.pb.h"
#include "cuda_driver.h"
#include "session/session.h"
#include "setup/config.h"

// Whether this connection could be taken up again.
_Bool comeback_possible(const struct session *session, const struct config *config);
// To be told of a Welcome, before a byte that follows it was read or sent.
CUresult comeback_offered(struct session *session, const struct config *config,
                          const outboard_Welcome *welcome);

// ---- for connection.c --------------------------------------------------------------------------
// The next four only where there is a comeback.

// Around all that is sent. The first waits while there is no connection; 0, or an errno value.
int comeback_begin_sending(struct session *session);
void comeback_end_sending(struct session *session);
// Keeps the first `size` bytes of the parts, which the socket has taken.
void comeback_keep(struct session *session, const struct iovec *parts, int count, size_t size);
// Where to keep what is sealed; NULL where there is no comeback.
struct kept_bytes *comeback_keeps(struct session *session);
// Counts what has come.
void comeback_received(struct session *session, size_t size);

// Between begin_sending and end_sending, after an error: waits for another connection. True when
// there is one; what was kept is sent, and the rest is to be.
_Bool comeback_await(struct session *session);
// Returns how many of the bytes kept from a count on lie in a row at *run; 0: there are no more.
size_t comeback_kept(struct session *session, uint64_t from, const uint8_t **run);

// ---- for others --------------------------------------------------------------------------------

// To be called when the connection has ended. False: it stays so. For the thread that reads, or one
// that has found out in another way.
_Bool comeback_cut(struct session *session);
// Tells the server that the session ends with its connection, unless that is cut.
void comeback_goodbye(struct session *session);

#endif
