// The session's window of device addresses, in granules of WIRE_GRANULE: which are free, and what
// lies in those that hold memory. Its last part is for pinned host memory. Everything here is
// called with the memory lock held (memory.h), but for window_has and window_is_host. Sizes are in
// bytes, and multiples of a granule.
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
  // Sets all of *found but the session to the allocation in it that has `address`. False when there
  // is none.
  _Bool (*find)(struct holding *holding, uint64_t address, struct allocation *found);
  // Ends it after a reset of the context: the server has nothing there any more. NULL: it outlives
  // resets.
  void (*forget)(struct holding *holding);
  // Whether it is lent to a peer that the memory of its session is opened to. NULL: it is not.
  _Bool (*opens)(const struct holding *holding, struct session *borrower);
};

// Sets what the window is. Its last `host_size` bytes are the host's part.
void window_start(uint64_t base, uint64_t size, uint64_t host_size);
// Whether the address is in the window, or in its host's part. These take no lock.
_Bool window_has(uint64_t address);
_Bool window_is_host(uint64_t address);

// Takes addresses that nobody has, outside the host's part, and sets *address to the first;
// `alignment` is a power of two, at least a granule. False when there are none.
_Bool window_take(uint64_t size, uint64_t alignment, uint64_t *address);
// Takes the addresses from `address` on. False when they are not all free.
_Bool window_take_at(uint64_t address, uint64_t size);
// Takes addresses in the host's part. False when there are none.
_Bool window_take_host(uint64_t size, uint64_t *address);
// Gives back addresses that were taken.
void window_give(uint64_t address, uint64_t size);

// Puts a holding at its addresses, which are taken, and makes it the thread's session's.
void window_put(struct holding *holding);
// Takes it away again. Its addresses stay taken.
void window_remove(const struct holding *holding);
// Returns the holding that has `address`; NULL when there is none.
struct holding *window_at(uint64_t address);
// Visits every holding of the thread's session, by address; the one visited may be removed.
void window_each(void (*visit)(struct holding *holding, void *context), void *context);

#endif
