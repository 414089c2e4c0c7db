// The session's window of device addresses, in granules of WIRE_GRANULE: which are free, and what
// lies in those that hold memory. Its last part is for pinned host memory. Everything here is
// called with the memory lock held (memory.h), but for window_has and window_is_host.
#ifndef OUTBOARD_WINDOW_H
#define OUTBOARD_WINDOW_H

#include <stdint.h>

#include "memory/memory.h"
#include "session/session.h"

// What lies in granules side by side: the head of a structure that its maker knows more of.
struct holding {
  uint64_t address;
  uint64_t size;            // bytes, whole granules
  struct session *session;  // whose server has it: that of the thread that put it here
  const struct holding_kind *kind;
  uint8_t borrowers;  // sessions whose devices it is open to beside its own (peer.h), a bit each
  uint64_t loan;      // number that it is lent to them under; 0: it never was
};

struct holding_kind {
  // The allocation in it that has `address`; false when there is none.
  _Bool (*find)(struct holding *holding, uint64_t address, struct allocation *found);
  // The context was reset, and the server has nothing there any more. NULL: it outlives resets.
  void (*forget)(struct holding *holding);
  // Whether a peer's device reaches it when, and because, the device is open to it. NULL: no.
  _Bool (*opens)(const struct holding *holding, struct session *borrower);
};

// `host_size` of it are the host's part.
void window_start(uint64_t base, uint64_t size, uint64_t host_size);
// Whether the address is the window's, or its host's part. Take no lock.
_Bool window_has(uint64_t address);
_Bool window_is_host(uint64_t address);

// Addresses that nobody has, `size` bytes of whole granules; `alignment` is a power of two. False
// when there are none.
_Bool window_take(uint64_t size, uint64_t alignment, uint64_t *address);
// The same, exactly there.
_Bool window_take_at(uint64_t address, uint64_t size);
// In the host's part.
_Bool window_take_host(uint64_t size, uint64_t *address);
void window_give(uint64_t address, uint64_t size);

// What is found at an address from now on. The addresses are taken already, and stay so.
void window_put(struct holding *holding);
void window_remove(const struct holding *holding);
struct holding *window_at(uint64_t address);  // NULL: nothing
// Visits every holding of the thread's session, by address; the one visited may be removed.
void window_each(void (*visit)(struct holding *holding, void *context), void *context);

#endif
