// What a program has advised for ranges of managed memory. It is kept only so that the program can
// ask for it. Ranges are of device addresses, in bytes; all functions take their own lock.
#ifndef OUTBOARD_ADVICE_H
#define OUTBOARD_ADVICE_H

#include <stdint.h>

#include "cuda_driver.h"

struct advice {
  _Bool read_mostly, accessed_by_host;
  CUmemLocation preferred, prefetched;  // type 0: none
  uint64_t accessed_by;                 // a bit per device
};

// Calls `change`, with `context`, on what holds for each part of [begin, end). False when there is
// no memory; some parts may have been changed then.
_Bool advice_change(uint64_t begin, uint64_t end,
                    void (*change)(struct advice *advice, const void *context),
                    const void *context);
// Returns what holds at `at`, and lowers *end, which is behind it, to how far that holds.
struct advice advice_at(uint64_t at, uint64_t *end);
// Forgets what was advised for [begin, end), where a new allocation lies.
void advice_forget(uint64_t begin, uint64_t end);

#endif
