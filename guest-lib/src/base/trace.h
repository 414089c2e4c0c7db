// What happened when: calls, batches, waits and the attach dialogue, recorded into the ring
// (proto/wire/trace_ring.h) of the file that OUTBOARD_TRACE names. Off, it costs each call one
// branch. On, there are no locks and no system calls but the clock, which is none.
#ifndef OUTBOARD_TRACE_H
#define OUTBOARD_TRACE_H

#include <stdatomic.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "trace_ring.h"

// The ring; NULL while tracing is off. Before the first call of a process, when that is not known
// yet, it is not NULL.
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

// Reads the environment and opens the ring, unless that was done. True when anything is recorded.
_Bool trace_decide(void);

// The functions below record something. Any thread may call them; they do nothing while tracing is
// off. Those that end a span return the result that they are given, where they return anything.

// A call of the program begins or ends; `call` is its number.
void trace_call_begin(struct trace_span *span, int call);
CUresult trace_call_end(const struct trace_span *span, CUresult result);
// The program has called an entry point that is not served (an index of abi_entries).
void trace_unsupported(int entry);

// This thread has put a command into the batch.
void trace_posted(uint16_t op, uint64_t sequence);
// Bytes of the commands `first` to `last` have gone out, since `at` (trace_now).
void trace_sent(uint64_t at, uint64_t bytes, uint64_t first, uint64_t last);
// The thread begins or ends waiting for the answer of the command that it has put last.
void trace_wait_begin(struct trace_span *span, uint64_t request, uint64_t sequence);
void trace_wait_end(const struct trace_span *span, CUresult result);
// A frame has come. `sequence` is that of the command that it answers, or 0.
void trace_received(uint16_t op, uint64_t bytes, uint64_t request, uint64_t sequence);

// A step of the attach dialogue begins or ends.
void trace_step_begin(struct trace_span *span, enum trace_step step);
void trace_step_end(const struct trace_span *span, CUresult result);
// A moment of the attach dialogue. `detail` is the position in the queue, or the session.
void trace_step(enum trace_step step, uint64_t detail);

// Says in the log what was wrong with the variables. To be called when the log is open.
void trace_report(void);

#endif
