// Memory shared with a server on the same machine, by session: large copies go through its slots,
// and the socket only says in which (docs/same-machine.md). It is opened when so much has been
// copied that opening it pays.
#ifndef OUTBOARD_REGION_H
#define OUTBOARD_REGION_H

#include <stdatomic.h>
#include <stdint.h>
#include <sys/types.h>

#include "cuda_driver.h"
#include "session/session.h"
#include "wire.h"

enum region_state { REGION_NONE, REGION_OFFERED, REGION_OPEN };
extern _Atomic int region_states[SESSIONS_MAX];

// What follows is about the session that the thread is in.
//
// The Welcome said that the server can share memory.
void region_offered(void);

// Whether a copy of so many bytes is to go through the region, which is opened if it is time.
_Bool region_wants_slow(uint64_t bytes);
static inline _Bool region_wants(uint64_t bytes) {
  return __builtin_expect(region_states[session_here()] != REGION_NONE, 0) &&
         region_wants_slow(bytes);
}
// Whether all of the program's memory there can be read, or written: who copies it must not crash.
// What cannot goes by the socket, where the system says so.
_Bool region_can_read(const void *at, uint64_t bytes);
_Bool region_can_write(void *at, uint64_t bytes);

// Uploads from the front of what is there as much as slots are to be had for; moves all three on.
CUresult region_upload(uint64_t *destination, const char **at, uint64_t *bytes, uint64_t stream);

// Whether there are slots for all of a download. A larger one would wait for the guest to give them
// back, several times, and is faster by the socket.
_Bool region_holds(uint64_t bytes);

// Downloads. The bytes that were placed in a slot, or NULL when there are no such.
const unsigned char *region_placed(const struct wire_placed *placed);
// They have been copied; the server is told of several slots together.
void region_took(uint32_t slot);
// Whether it is time to; posting it, of all slots so far. Nothing may be half sent by this thread
// then, nor be read by it.
_Bool region_owes(void);
void region_give_back(void);

// recv of a socket that a descriptor may come by.
ssize_t region_receive(int fd, void *to, size_t size, int flags);

#endif
