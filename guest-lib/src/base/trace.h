// What happened when: calls, batches, waits and the attach dialogue, recorded into the ring
// (proto/wire/trace_ring.h) of the file that OUTBOARD_TRACE names. Off, it costs each call one
// branch. On, there are no locks and no system calls but the clock, which is none.
#ifndef OUTBOARD_TRACE_H
#define OUTBOARD_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "trace_ring.h"

// NULL: off. Before the first call of a process it is not known, and not NULL.
extern struct trace_ring *_Atomic guest_trace;

static inline _Bool trace_on(void) {
  return __builtin_expect(atomic_load_explicit(&guest_trace, memory_order_acquire) != 0, 0);
}

// Something that lasts. It is in the file from its beginning, so that what never ended is seen.
struct trace_span {
  struct trace_record *record;  // NULL: it is not traced
  uint64_t number, at;
};

enum trace_step { STEP_CONNECT, STEP_HELLO, STEP_QUEUED, STEP_WELCOME, STEP_REFUSED, STEP_COUNT };

// Looks at the environment when nobody has. Whether anything is recorded.
_Bool trace_decide(void);

// All are safe from any thread, and do nothing while tracing is off.

void trace_call_begin(struct trace_span *span, int call);
CUresult trace_call_end(const struct trace_span *span, CUresult result);
void trace_unsupported(int entry);

// A command has been put into the batch by this thread.
void trace_posted(uint16_t op, uint64_t sequence);
// Bytes of commands have gone out, since `at` (trace_now).
void trace_sent(uint64_t at, uint64_t bytes, uint64_t first, uint64_t last);
// The thread waits for the answer of the command it has put last.
void trace_wait_begin(struct trace_span *span, uint64_t request, uint64_t sequence);
void trace_wait_end(const struct trace_span *span, CUresult result);
// A frame has come. `sequence`: of the command it answers, or 0.
void trace_received(uint16_t op, uint64_t bytes, uint64_t request, uint64_t sequence);

void trace_step_begin(struct trace_span *span, enum trace_step step);
void trace_step_end(const struct trace_span *span, CUresult result);
// A moment of the attach dialogue. `detail`: the position in the queue, the session.
void trace_step(enum trace_step step, uint64_t detail);

// Says in the log what was wrong with the variables, now that there is a log.
void trace_report(void);

#endif
