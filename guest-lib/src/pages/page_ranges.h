// The ranges of memory that host and device share: their beginning and their end.
#ifndef OUTBOARD_PAGE_RANGES_H
#define OUTBOARD_PAGE_RANGES_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

// Ranges there are. Without any, nothing here costs more than reading this.
extern _Atomic unsigned pages_ranges;

// Shares [address, address + size) of the window, whole pages of zeros on both sides.
CUresult pages_share(struct session *session, uint64_t address, uint64_t size);
void pages_unshare(uint64_t address);

// The same for a variable of a module, which lies where the driver put it: outside the window, and
// on pages that it has with other variables.
CUresult pages_share_variable(uint64_t address, uint64_t size);
void pages_unshare_variable(uint64_t address);

// Pinned host memory, when the device is first to reach it: [address, address + size) of the
// window, as it lies there in the program's process; `view` is where it can always be reached.
// `fresh`: the device has zeros there. And when the device reaches it no more, work and all: the
// pages are open then, as they were seen last.
CUresult pages_share_pinned(struct session *session, uint64_t address, uint64_t size, char *view,
                            _Bool fresh);
void pages_unshare_pinned(uint64_t address);
// The same of the program's own memory at `memory`, which need not be whole pages. The device has
// it at `address`, as far from the start of a page; nobody else has anything on those pages.
CUresult pages_share_own(struct session *session, uint64_t address, uint64_t size, char *memory,
                         _Bool read_only);

#endif
