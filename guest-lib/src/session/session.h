// Sessions: a program with several devices has one connection for each, to a slot of its own on
// this server or that. A session is such a connection with its batch, its answers and the order of
// its commands; what one session's server knows (streams, modules, memory) no other session's does.
//
// A thread is in one session at a time. A call begins in the session of its current context and
// follows the handles and addresses that it is given into theirs; where they are of two sessions,
// nothing is sent (wire/batch.h), unless the call knows how to do it and says which session it
// means.
#ifndef OUTBOARD_SESSION_OF_DEVICE_H
#define OUTBOARD_SESSION_OF_DEVICE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "session/device.h"

// Sessions are numbered from 0 on.
#define SESSIONS_MAX DEVICES_MAX
// In place of a session, for what belongs to none in particular: contexts, libraries and their
// kernels, memory of the host.
#define SESSION_ANY 0xffu

// How many sessions there are: set once, at attach. Where there is one, nothing here costs more
// than looking at this number.
extern int session_count;

struct thread_session {
  unsigned session;
  _Bool named;       // by a handle or an address, not only by the current context
  CUresult crossed;  // another session was named, too: what a call gets that sends something now
};
extern __thread struct thread_session thread_session;

// Whether there is more than one session.
static inline _Bool sessions_many(void) { return __builtin_expect(session_count > 1, 0); }
// Returns the session that the calling thread is in.
static inline unsigned session_here(void) { return sessions_many() ? thread_session.session : 0; }

// For each session, a bit for each other session that was ever lent any of its memory
// (memory/peer.h). Their work may use that memory next, and does not wait for what was sent here.
// Changes under the memory lock.
extern _Atomic uint8_t session_borrowers[SESSIONS_MAX];

// Sets of sessions have a bit for each. sessions_take() goes through a set: for (unsigned left =
// set, session; sessions_take(&left, &session);)
static inline _Bool sessions_have(unsigned set, unsigned session) { return set >> session & 1; }
static inline _Bool sessions_take(unsigned *left, unsigned *session) {
  if (!*left) return 0;
  *session = (unsigned)__builtin_ctz(*left);
  *left &= *left - 1;
  return 1;
}

// To be called where a call begins: brings the thread into the session of its current context.
void session_begin(void);
// To be called when the program has named something of `session`, which is SESSION_ANY for what is
// of none: the thread follows it there. If something of another session was named before, the
// thread stays, and the call gets `otherwise` when it sends something (session_refusal).
static inline void session_follow(unsigned session, CUresult otherwise) {
  if (!sessions_many() || session == SESSION_ANY || session >= SESSIONS_MAX) return;
  if (thread_session.named && thread_session.session != session) {
    if (!thread_session.crossed) thread_session.crossed = otherwise;
    return;
  }
  thread_session.session = session;
  thread_session.named = 1;
}
// Brings the thread into a session, whatever was named before.
static inline void session_use(unsigned session) {
  if (sessions_many() && session < SESSIONS_MAX)
    thread_session = (struct thread_session){session, 1, 0};
}
// Brings the thread into a session for a while; session_back, given what this returned, brings it
// back.
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
// Returns the error of a call that sends something although it was given things of two sessions,
// and CUDA_SUCCESS for all other calls. session_crossed is the same, and cheap with one session.
CUresult session_refusal(void);
static inline CUresult session_crossed(void) {
  return sessions_many() ? session_refusal() : CUDA_SUCCESS;
}

// Return the session of a device (an ordinal) and of a context (a handle); 0 for what there is not.
unsigned session_of_device(int device);
unsigned session_of_context(uint64_t context);
// Returns the ordinal of the device that a session leads to; 0 when the program does not see it.
int device_of_session(unsigned session);
// Returns the ordinal of the device that the thread's session leads to. With one session, which may
// have several devices, it is that of the current context.
int device_here(void);

#endif
