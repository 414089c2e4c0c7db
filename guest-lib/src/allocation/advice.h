// What a program has advised for ranges of managed memory: kept to be asked for.
#ifndef OUTBOARD_ADVICE_H
#define OUTBOARD_ADVICE_H

#include <stdint.h>

#include "cuda_driver.h"

struct advice {
  _Bool read_mostly, accessed_by_host;
  CUmemLocation preferred, prefetched;  // type 0: none
  uint64_t accessed_by;                 // a bit per device
};

// Changes what holds for [begin, end). False when there is no memory.
_Bool advice_change(uint64_t begin, uint64_t end,
                    void (*change)(struct advice *advice, const void *context),
                    const void *context);
// What holds for [at, *end); *end is lowered to where something else begins.
struct advice advice_at(uint64_t at, uint64_t *end);
// New memory is there.
void advice_forget(uint64_t begin, uint64_t end);

#endif
