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

// Devices of these sessions, a bit each, reach it where it is.
void pages_open_to(uint64_t address, uint8_t sessions);

// Around posting work that may touch any of it, as a kernel may: what the host has changed goes
// first, and the host has nothing afterwards. The answer of the first is for the second.
_Bool pages_hand_over_all(void);
void pages_handed_over(void);
static inline _Bool pages_hand_over(void) {
  return __builtin_expect(pages_ranges != 0, 0) && pages_hand_over_all();
}

// Before posting work that touches only this range, which may lie anywhere; `writes`: not only to
// read it.
void pages_use_range(uint64_t address, uint64_t size, _Bool writes);
static inline void pages_use(uint64_t address, uint64_t size, _Bool writes) {
  if (__builtin_expect(pages_ranges != 0, 0)) pages_use_range(address, size, writes);
}

// Before it is shared no more and the host goes on with it: brings all that the device has, once no
// work uses it.
void pages_bring_all(uint64_t address);
// After that: it is shared with the device of the thread's session, which has nothing of it yet.
void pages_move(struct session *session, uint64_t address);

// What a fault means. True when the touch may be tried again.
_Bool pages_fault(uint64_t address, _Bool known, _Bool write);

#endif
