// The region: memory that is shared with a server on the same machine, one for each session. Large
// copies go through slots of it, which are pieces of equal size, and the socket only says through
// which (docs/same-machine.md). It is opened when so much has been copied that opening it pays.
#ifndef OUTBOARD_REGION_H
#define OUTBOARD_REGION_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

enum region_state { REGION_NONE, REGION_OFFERED, REGION_OPEN };

// Makes what this file keeps for a session (sessions_make); false when there is no memory.
_Bool region_make(struct session *session);

// To be called when the Welcome has said that the server can share memory. Nothing follows from it
// where the connection is no Unix socket.
void region_offered(struct session *session);

// Whether a copy of so many bytes is to go through the region, which is opened first if it is time:
// that is a round trip.
_Bool region_wants_slow(struct session *session, uint64_t bytes);
static inline _Bool region_wants(struct session *session, uint64_t bytes) {
  return __builtin_expect(session->region_state != REGION_NONE, 0) &&
         region_wants_slow(session, bytes);
}
// Whether all of the program's memory there can be read, or written. Whoever copies it here would
// crash otherwise; memory that cannot goes by the socket, where the system reports the error.
_Bool region_can_read(const void *at, uint64_t bytes);
_Bool region_can_write(void *at, uint64_t bytes);

// Posts uploads of the first bytes at *at, for as many as there are free slots, and moves the three
// on by what was posted; the rest is left for the socket. The region is open (region_wants). An
// error is that of posting (guest_lost).
CUresult region_upload(struct session *session, uint64_t *destination, const char **at,
                       uint64_t *bytes, uint64_t stream);

// Whether there are slots for all bytes of a download. A larger one would wait several times for
// the guest to give slots back, and is faster by the socket. The region is open.
_Bool region_holds(struct session *session, uint64_t bytes);

// Returns the bytes of a download that the server says it has placed in a slot, or NULL when there
// is no such slot or they do not fit into it.
const unsigned char *region_placed(struct session *session, const struct wire_placed *placed);
// Notes that the bytes of a slot have been copied, so that the slot can be given back.
void region_took(struct session *session, uint32_t slot);
// Whether so many slots were noted that it is time to give them back.
_Bool region_owes(struct session *session);
// Posts that the server has all noted slots again. The thread may be neither in the middle of a
// frame nor the one that reads.
void region_give_back(struct session *session);

// Receives like recv, and keeps a descriptor that comes along while the region is offered and not
// yet open.
ssize_t region_receive(struct session *session, int fd, void *to, size_t size, int flags);

#endif
