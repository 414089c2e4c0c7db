// Sessions: a program with several devices has one connection for each, to a slot of its own on
// this server or that. A session is such a connection with its batch, its answers and the order of
// its commands; what one session's server knows (streams, modules, memory) no other session's does.
//
// A thread is in one session at a time. A call begins in that of its current context and follows
// the handles and addresses that it is given; where they are of two sessions, nothing is sent
// (batch.h), unless the call knows how to do it and says which session it means.
#ifndef OUTBOARD_SESSION_OF_DEVICE_H
#define OUTBOARD_SESSION_OF_DEVICE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/device.h"

#define SESSIONS_MAX DEVICES_MAX
// Of what no session has for itself: contexts, libraries and their kernels.
#define SESSION_ANY 0xffu

// Sessions there are: set once, at attach. With one of them nothing here costs more than a look at
// it.
extern int session_count;

struct thread_session {
  unsigned session;
  _Bool named;       // by a handle or an address, not only by the current context
  CUresult crossed;  // another session was named, too: what a call gets that sends something now
};
extern __thread struct thread_session thread_session;

static inline _Bool sessions_many(void) { return __builtin_expect(session_count > 1, 0); }
static inline unsigned session_here(void) { return sessions_many() ? thread_session.session : 0; }

// By session, a bit for each other that was ever lent anything of it (memory/peer.h): work of
// theirs may come next that uses it, and does not wait for what was sent here. Changes under the
// memory lock.
extern _Atomic uint8_t session_borrowers[SESSIONS_MAX];

// Sets of sessions, a bit each. sessions_take() goes through one: for (unsigned left = set,
// session; sessions_take(&left, &session);)
static inline _Bool sessions_have(unsigned set, unsigned session) { return set >> session & 1; }
static inline _Bool sessions_take(unsigned *left, unsigned *session) {
  if (!*left) return 0;
  *session = (unsigned)__builtin_ctz(*left);
  *left &= *left - 1;
  return 1;
}

// A call begins: in the session of the current context.
void session_begin(void);
// Something of this session was named; `otherwise` is what the call gets if it cannot be used
// beside what was named before.
static inline void session_follow(unsigned session, CUresult otherwise) {
  if (!sessions_many() || session == SESSION_ANY || session >= SESSIONS_MAX) return;
  if (thread_session.named && thread_session.session != session) {
    if (!thread_session.crossed) thread_session.crossed = otherwise;
    return;
  }
  thread_session.session = session;
  thread_session.named = 1;
}
// The call means this session from now on.
static inline void session_use(unsigned session) {
  if (sessions_many() && session < SESSIONS_MAX)
    thread_session = (struct thread_session){session, 1, 0};
}
// For a while; session_back(what this returned) goes back.
static inline struct thread_session session_switch(unsigned session) {
  struct thread_session before = {0};
  if (!sessions_many()) return before;
  before = thread_session;
  session_use(session);
  return before;
}
static inline void session_back(struct thread_session before) {
  if (sessions_many()) thread_session = before;
}
// What a call gets that sends something although it was given things of two sessions, or 0.
CUresult session_refusal(void);
static inline CUresult session_crossed(void) {
  return sessions_many() ? session_refusal() : CUDA_SUCCESS;
}

// The session of a device, and of a context; the device that a session leads to.
unsigned session_of_device(int device);
unsigned session_of_context(uint64_t context);
int device_of_session(unsigned session);
// The device of the thread's session; with one session, which may have several, that of the current
// context.
int device_here(void);

#endif
