// The gate of every entry point: counts the call and answers it at once when the library is not
// initialised, the connection is lost, the process is a fork's child or the context is poisoned.
#ifndef OUTBOARD_ENTER_H
#define OUTBOARD_ENTER_H

#include <stdatomic.h>

#include "base/call.h"
#include "base/stats.h"
#include "cuda_driver.h"
#include "session/context.h"
#include "session/session.h"
#include "setup/log.h"

// Objects know their contexts, so that what only ends or asks them needs no current one.
enum needs { NEEDS_NOTHING, NEEDS_INIT, NEEDS_OBJECT, NEEDS_CONTEXT };

// 0 when calls may go on; anything else sends them to guest_refuse.
extern _Atomic int guest_condition;

// The CUresult of a call that cannot go on; 0 when it can after all.
CUresult guest_refuse(enum needs needs);

static inline CUresult guest_enter(int call, enum needs needs) {
  stats_add(&guest_stats->calls, 1);
  stats_add(&guest_stats->by_call[call], 1);
  log_trace("%s", call_names[call]);
  if (needs == NEEDS_NOTHING) return CUDA_SUCCESS;
  if (sessions_many()) session_begin();
  if (__builtin_expect(atomic_load_explicit(&guest_condition, memory_order_acquire), 0)) {
    CUresult result = guest_refuse(needs);
    if (result) return result;
  }
  if (needs == NEEDS_CONTEXT && !context_current()) return context_unusable();
  return CUDA_SUCCESS;
}

// State changes. All are safe from any thread.
void guest_attaching(void);  // to be followed by guest_attached, in the same thread
void guest_attached(_Bool success);
void guest_set_lost(CUresult result);  // the connection is gone
_Bool guest_is_lost(void);
// What a call returns that could not send: what every later call returns once the connection is
// gone, and the reason has been logged; or that it was given things of two sessions.
CUresult guest_lost(void);
void guest_watch_host_functions(void);  // calls made inside them are to be refused from now on
void guest_watch_contexts(_Bool some_inactive);
_Bool guest_is_child(void);  // this process was forked off after cuInit
// What follows is about the session that the thread is in (session.h), as errors are of one device.
//
// An error of posted work: kept for the next call that synchronises; one that a GPU would not
// recover from poisons the context.
void guest_async_error(CUresult result);
CUresult guest_take_async_error(void);
// The result of a call the server carried out: poisons the context if a GPU would not recover.
void guest_note_result(CUresult result);
// After a reset of the context.
void guest_clear_errors(void);

#endif
