// Whether calls are looked at as they pass: recorded (trace.h), timed (stats.h), or made as dear as
// a design decision saves (ablation.h). One word for all, so that ordinary runs pay one branch.
#ifndef OUTBOARD_WATCH_H
#define OUTBOARD_WATCH_H

#include <stdatomic.h>
#include <stddef.h>

#include "base/stats.h"
#include "base/trace.h"
#include "cuda_driver.h"

enum { WATCH_UNDECIDED = 1, WATCH_TRACE = 2, WATCH_STATS = 4, WATCH_ABLATION = 8 };

// Before the first call of a process it is WATCH_UNDECIDED.
extern _Atomic unsigned guest_watch;

static inline _Bool watch_on(void) {
  return __builtin_expect(atomic_load_explicit(&guest_watch, memory_order_acquire) != 0, 0);
}
static inline _Bool watch_has(unsigned bit) {
  return (atomic_load_explicit(&guest_watch, memory_order_acquire) & bit) != 0;
}

struct watched {
  struct trace_span trace;
  struct stats_span stats;
  int call;
};

// To be called, by any thread, while watch_on(): when a call of the program begins and ends, and
// when a command of `bytes` bytes has been put into the batch. watch_end returns `result`.
void watch_begin(struct watched *watched, int call);
CUresult watch_end(const struct watched *watched, CUresult result);
void watch_posted(uint16_t op, uint64_t sequence, size_t bytes);

// To be called in the child of a fork: has the environment looked at again.
void watch_again(void);

#endif
