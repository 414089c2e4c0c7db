// The session's window of device addresses, in granules: which are free, and what lies in those
// that hold memory. Its last part is for pinned host memory. Everything here is
// called with the memory lock held (memory.h), but for window_has and window_in_host_part. Sizes
// are in bytes, and multiples of a granule.
#ifndef OUTBOARD_WINDOW_H
#define OUTBOARD_WINDOW_H

#include <stdint.h>

#include "memory/memory.h"
#include "session/session.h"
#include "wire.h"

// What lies in granules side by side: the head of a structure that its maker knows more of.
struct holding {
  uint64_t address;
  uint64_t size;            // bytes, whole granules
  struct session *session;  // whose server has it; NULL: devices of any may reach it
  const struct holding_kind *kind;
  uint8_t borrowers;  // sessions whose devices it is open to beside its own (peer.h), a bit each
  uint64_t loan;      // number that it is lent to them under; 0: it never was
};

struct holding_kind {
  // Sets all of *found but the session to the allocation in it that has `address`. False when there
  // is none.
  _Bool (*find)(struct holding *holding, uint64_t address, struct allocation *found);
  // Ends it after a reset of the session's context: the server has nothing there any more. NULL: it
  // outlives resets.
  void (*forget)(struct session *session, struct holding *holding);
  // Whether it is lent to a peer that the memory of its session is opened to. NULL: it is not.
  _Bool (*opens)(const struct holding *holding, struct session *borrower);
};

// Sets what the window is. Its last `host_size` bytes are the host's part. `granule` is the largest
// of what the servers' devices give memory in, a power of two, and the others are multiples of it.
void window_start(uint64_t base, uint64_t size, uint64_t host_size, uint64_t granule);

extern unsigned window_shift;
// Returns the size of a granule. Takes no lock.
static inline uint64_t window_granule(void) { return (uint64_t)1 << window_shift; }
// Returns what small allocations share, as the vendor's driver has it: whole granules. Others begin
// at multiples of it. Takes no lock.
static inline uint64_t window_block(void) {
  return window_granule() > WIRE_GRANULE ? window_granule() : WIRE_GRANULE;
}
// Whether the address is in the window, or in its host's part, that of pinned memory. These take no
// lock.
_Bool window_has(uint64_t address);
_Bool window_in_host_part(uint64_t address);

// Takes addresses that nobody has, outside the host's part, and sets *address to the first;
// `alignment` is a power of two, at least a granule. False when there are none.
_Bool window_take(uint64_t size, uint64_t alignment, uint64_t *address);
// Takes the addresses from `address` on. False when they are not all free.
_Bool window_take_at(uint64_t address, uint64_t size);
// Takes addresses in the host's part. False when there are none.
_Bool window_take_host(uint64_t size, uint64_t *address);
// Gives back addresses that were taken.
void window_give(uint64_t address, uint64_t size);

// Puts a holding, all of which is filled in, at its addresses, which are taken.
void window_put(struct holding *holding);
// Takes it away again. Its addresses stay taken.
void window_remove(const struct holding *holding);
// Returns the holding that has `address`; NULL when there is none.
struct holding *window_at(uint64_t address);
// Visits every holding of the session and those of no session, by address; the one visited may be
// removed.
void window_each(struct session *session, void (*visit)(struct holding *holding, void *context),
                 void *context);

#endif
