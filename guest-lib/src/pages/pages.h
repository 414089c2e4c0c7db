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

// Devices of these lanes, a bit each, reach it where it is.
void pages_open_to(uint64_t address, uint8_t lanes);

// The same for a variable of a module, which lies where the driver put it: outside the window, and
// on pages that it has with other variables.
CUresult pages_share_variable(uint64_t address, uint64_t size);
void pages_unshare_variable(uint64_t address);

// With several lanes such a variable is one for the devices of all that have its library
// (page_variables.c). Variables there are: without any, nothing here costs more than reading this.
extern _Atomic unsigned pages_variables;
// Times that any was moved from one to another.
extern _Atomic uint64_t pages_moves;
// Where the thread's device has the one at an address; and what that is, 0 when it does not have
// it.
void pages_variable_lies(uint64_t address, uint64_t there);
uint64_t pages_variable_here(uint64_t address);
// Its bytes become the thread's device's, once no work of another's uses them; those of all that
// the device has; and those of the device at whose address it is. Without locks.
void pages_bring_variable(uint64_t address);
void pages_bring_variables(void);
void pages_send_home(uint64_t address);
// The thread's device is about to lose all libraries.
void pages_leave_lane(void);

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

// Pinned host memory, when the device is first to reach it: [address, address + size) of the
// window, as it lies there in the program's process; `view` is where it can always be reached.
// `fresh`: the device has zeros there. And when the device reaches it no more, work and all: the
// pages are open then, as they were seen last.
CUresult pages_share_pinned(uint64_t address, uint64_t size, char *view, _Bool fresh);
void pages_unshare_pinned(uint64_t address);
// Before it is shared no more and the host goes on with it: brings all that the device has, once no
// work uses it.
void pages_bring_all(uint64_t address);
// After that: it is shared with the device of the thread's lane, which has nothing of it yet.
void pages_move(uint64_t address);

// The same of the program's own memory at `memory`, which need not be whole pages. The device has
// it at `address`, as far from the start of a page; nobody else has anything on those pages.
CUresult pages_share_own(uint64_t address, uint64_t size, char *memory, _Bool read_only);

// Ranges of pinned memory with pages that both sides may change at any time (live.c).
extern _Atomic unsigned pages_live;
// Around waiting for work: what the host has changed goes, for the work may wait for it; and what
// the device has changed comes.
void pages_push_all(void);
void pages_look_all(void);
static inline void pages_will_wait(void) {
  if (__builtin_expect(pages_live != 0, 0)) pages_push_all();
}
static inline void pages_have_waited(void) {
  if (__builtin_expect(pages_live != 0, 0)) pages_look_all();
}

// What a fault means. True when the touch may be tried again.
_Bool pages_fault(uint64_t address, _Bool known, _Bool write);

#endif
