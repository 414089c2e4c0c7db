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

// Ranges there are. Without any, nothing here costs more than reading this.
extern _Atomic unsigned pages_ranges;

// Shares [address, address + size) of the window, whole pages of zeros on both sides.
CUresult pages_share(uint64_t address, uint64_t size);
void pages_unshare(uint64_t address);

// The same for a variable of a module, which lies where the driver put it: outside the window, and
// on pages that it has with other variables.
CUresult pages_share_variable(uint64_t address, uint64_t size);
void pages_unshare_variable(uint64_t address);

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

// What a fault means. True when the touch may be tried again.
_Bool pages_fault(uint64_t address, _Bool known, _Bool write);

#endif
