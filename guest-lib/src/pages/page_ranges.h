// The ranges of memory that host and device share: their beginning and their end. The functions
// take the lock of pages themselves; those that begin to share return CUDA_ERROR_OUT_OF_MEMORY when
// there is no memory. Those that end it wait for touches that are bringing pages, and do nothing
// where no range begins. Addresses are the device's, sizes in bytes.
#ifndef OUTBOARD_PAGE_RANGES_H
#define OUTBOARD_PAGE_RANGES_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

// How many ranges there are. Without any, nothing here costs more than reading this.
extern _Atomic unsigned pages_ranges;

// Shares managed memory: whole pages of the window, which are zeros on both sides.
CUresult pages_share(struct session *session, uint64_t address, uint64_t size);
// Ends that. What is in the pages is lost.
void pages_unshare(uint64_t address);

// Shares a managed variable of a module of the session. It lies where the driver put it,
// outside the window, and on pages where other variables may be. CUDA_ERROR_NOT_SUPPORTED when this
// process has something else there.
CUresult pages_share_variable(struct session *session, uint64_t address, uint64_t size);
// Ends that. The pages go with the last variable on them.
void pages_unshare_variable(uint64_t address);

// Shares pinned memory that lies in the window, in whole pages, when a device is first to reach it.
// `view` is where it can always be reached; `fresh` says that the device has zeros there.
CUresult pages_share_pinned(struct session *session, uint64_t address, uint64_t size, char *view,
                            _Bool fresh);
// Ends the sharing of this and the next kind of memory, which no work uses any more. The pages are
// open to the program then, as it saw them last.
void pages_unshare_pinned(uint64_t address);
// Shares the program's own memory at `memory`, which need not be whole pages. The device has it at
// `address`, as far from the start of a page; nobody else has anything on those pages. `read_only`
// says that the device does not write to it.
CUresult pages_share_own(struct session *session, uint64_t address, uint64_t size, char *memory,
                         _Bool read_only);

#endif
