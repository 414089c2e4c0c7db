// The entrance of every call: counts it and answers it at once when the library is not initialised,
// the connection is lost, the process is a fork's child, or the context is poisoned, which means
// that an error has come from which a GPU does not recover.
#ifndef OUTBOARD_ENTER_H
#define OUTBOARD_ENTER_H

#include <stdatomic.h>

#include "abi_process.h"
#include "base/call.h"
#include "base/stats.h"
#include "cuda_driver.h"
#include "session/context.h"
#include "session/session.h"
#include "setup/log.h"

// What a call needs to go on: nothing, cuInit, a context that is not poisoned (it works on an
// object that knows its context, so none need be current), or a current context that can be used.
enum needs { NEEDS_NOTHING, NEEDS_INIT, NEEDS_OBJECT, NEEDS_CONTEXT };

// What a call needs that names a stream: one that was made knows its context, and a default stream
// is that of the current context.
static inline enum needs needs_of(CUstream stream) {
  return (uintptr_t)stream > (uintptr_t)CU_STREAM_PER_THREAD ? NEEDS_OBJECT : NEEDS_CONTEXT;
}

// 0 when calls may go on; anything else sends them to guest_check.
extern _Atomic int guest_obstacles;

// Whether what was made in a context is gone with it (context_is_inactive).
static inline _Bool guest_context_is_gone(uint64_t context) {
  return __builtin_expect(atomic_load_explicit(&guest_obstacles, memory_order_relaxed), 0) &&
         context_is_inactive(context);
}

// Returns the error of a call that cannot go on, and CUDA_SUCCESS when this one can after all. For
// when guest_obstacles is not 0, and in a child.
CUresult guest_check(enum needs needs);

// Called first by the generated entry point of the call with the number `call` (CALL_...). Brings
// the thread into the session of its current context. CUDA_SUCCESS when the call may go on;
// anything else is what the program gets.
static inline CUresult guest_enter(int call, enum needs needs) {
  stats_add(&guest_stats->calls, 1);
  stats_add(&guest_stats->by_call[call], 1);
  log_trace("%s", call_names[call]);
  if (needs == NEEDS_NOTHING) return CUDA_SUCCESS;
  if (sessions_many()) session_begin_call();
  if (__builtin_expect(atomic_load_explicit(&guest_obstacles, memory_order_acquire), 0) ||
      __builtin_expect(abi_process_is_child(), 0)) {
    CUresult result = guest_check(needs);
    if (result) return result;
  }
  if (needs == NEEDS_CONTEXT && !context_current()) return context_unusable();
  return CUDA_SUCCESS;
}

// For a call that is served, but not for what it asks for: counts it with those that are not served
// at all, and says in the log that `what` (several of something) is not served, the first time
// that it comes to this place. `said` is the place's own, of static storage. Returns
// CUDA_ERROR_NOT_SUPPORTED.
CUresult guest_not_served(_Atomic _Bool *said, const char *what);

// ---- the state of the process; safe from any thread --------------------------------------------

// cuInit begins to attach, and has ended, in the same thread.
void guest_attaching(void);
void guest_attached(_Bool success);
// The connection is gone: every later call gets `result`. The first one to say so counts.
void guest_set_lost(CUresult result);
_Bool guest_is_lost(void);
// The session was released while the program held nothing of it (driver/release.h): there is no
// connection, and nothing may be sent, until the session that takes its place is there.
void guest_set_released(_Bool released);
_Bool guest_is_released(void);
// Whether there is a connection: neither lost nor released.
_Bool guest_may_send(void);
// From now on a call that finds the session released calls `again` first, which returns
// CUDA_SUCCESS when there is a session, or what the call gets. No lock is held then.
void guest_attach_again_by(CUresult (*again)(void));
// Returns what a call gets that could not send: what every later call gets once the connection is
// gone, whose reason is in the log by then; or the error of a call that was given things of two
// sessions. Never CUDA_SUCCESS.
CUresult guest_lost(void);
// From now on calls that a function of the program makes while a stream calls it are refused.
void guest_watch_host_functions(void);
// Whether any context is inactive, so that calls have to look at theirs.
void guest_watch_contexts(_Bool some_inactive);
// Whether this process is a child of one that has called cuInit, or was calling it.
_Bool guest_is_child(void);

// ---- errors of a session ------------------------------------------------------------------------

// Notes an error of posted work. The first is kept for the next call that synchronises; one from
// which a GPU does not recover poisons the context.
void guest_async_error(struct session *session, CUresult result);
// Returns the error that was kept, which is forgotten then, or the one that has poisoned the
// context, which stays; CUDA_SUCCESS when there is none.
CUresult guest_take_async_error(struct session *session);
// Notes the result of a call that the server carried out: it poisons the context if a GPU does not
// recover from it.
void guest_note_result(struct session *session, CUresult result);
// Forgets all errors of the session. For a reset of the context.
void guest_clear_errors(struct session *session);

#endif
