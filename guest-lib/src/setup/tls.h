// A connection by TLS (tls://HOST:PORT): the handshake, and bytes through records. Where the
// library was built without TLS, tls_open says so and nothing else is ever called.
#ifndef OUTBOARD_GUEST_TLS_H
#define OUTBOARD_GUEST_TLS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "setup/config.h"

struct tls;

// Shakes hands on a connected socket until the deadline, as clock_ms() has it. NULL where that
// failed, and *error is an errno value then: EINTR when a signal of the program ended the wait,
// else what is wrong is in the log.
struct tls *tls_open(int fd, const struct server_name *server, const struct config *config,
                     int64_t deadline, int *error);
// Forgets keys and buffers; the socket is the caller's. NULL is fine.
void tls_close(struct tls *tls);

// One thread may send while another receives.

// Seals what `parts` hold, some bytes at least, in whole records, as much as there is room for, and
// takes it away from them. What is not readable is sent as zeros, and *unreadable set; what `ours`
// says is known to be readable. `kept`, unless it is NULL, keeps what was taken. Returns how many
// pieces are to be sent, and in *sealed these, which stay until the next call; 0: nothing can be
// sent any more.
struct kept_bytes;
int tls_seal(struct tls *tls, struct iovec **parts, int *count, const void *ours, _Bool *unreadable,
             struct kept_bytes *kept, struct iovec **sealed);

// As recv; but what has come lies at *at until the caller has told by tls_took how much of it has
// been used up. -1 with errno EBADMSG: what came is not what the server has sent, which the log
// says.
ssize_t tls_receive(struct tls *tls, int fd, int flags, const uint8_t **at);
void tls_took(struct tls *tls, size_t size);
// How many bytes, at most, tls_receive has without the socket behind what it returned last.
size_t tls_ahead(const struct tls *tls);
// Whether tls_receive has something without the socket.
_Bool tls_has(const struct tls *tls);

#endif
