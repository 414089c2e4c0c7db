// Pages that host and device share, and which side has the current bytes of each. Host pages that
// the device's may differ from are closed to the program; a touch brings the bytes.
//
// Lock: one for all ranges, taken before `send` and `batch` and after the map of memory. It is not
// held while a touch waits for the server. Nobody may touch the program's memory with it, nor with
// any lock that comes after it: the touch would wait for them.
#ifndef OUTBOARD_PAGES_H
#define OUTBOARD_PAGES_H

#include <stdint.h>

#include "cuda_driver.h"
#include "pages/page_ranges.h"
#include "session/session.h"

// Notes that the devices of these sessions, a bit each, reach the range at `address` where it is.
void pages_open_to(uint64_t address, uint8_t sessions);

// To be called before posting work of the session that may touch any range, as a kernel may: sends
// what the host has changed, and closes the pages. Returns true, and with the lock held: the caller
// calls pages_handed_over when the work is posted.
_Bool pages_hand_over_all(struct session *session);
void pages_handed_over(void);
// Does the same where there are ranges; otherwise it returns false, and takes no lock.
static inline _Bool pages_hand_over(struct session *session) {
  return __builtin_expect(pages_ranges != 0, 0) && pages_hand_over_all(session);
}

// To be called before posting work that touches only these `size` bytes, which may lie anywhere:
// sends what the host has changed of them. `writes` says that the work changes them: their pages
// are closed then.
void pages_use_range(uint64_t address, uint64_t size, _Bool writes);
static inline void pages_use(uint64_t address, uint64_t size, _Bool writes) {
  if (__builtin_expect(pages_ranges != 0, 0)) pages_use_range(address, size, writes);
}

// Brings all that the device has of the range at `address`, and opens it. To be called when no work
// uses it any more, before it is shared no more or moves.
void pages_bring_all(uint64_t address);
// Notes, after that, that the range is shared with the device of `session` from now on, which has
// nothing of it yet.
void pages_move(struct session *session, uint64_t address);

// Does what a fault at `address` asks for, on the thread that it came to: brings the page, or opens
// it to be written. `write` says whether it was a write, where that is `known`. True when the
// access may be tried again; false when the address is in no range.
_Bool pages_fault(uint64_t address, _Bool known, _Bool write);

#endif
