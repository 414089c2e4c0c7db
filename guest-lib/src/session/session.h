// Sessions: a program with several devices has one connection for each, to a slot of its own on
// this server or that. A session is such a connection with its batch, its answers and the order of
// its commands; what one session's server knows (streams, modules, memory) no other session's does.
//
// A thread is in one session at a time. A call begins in the session of its current context and
// follows the handles and addresses that it is given into theirs; where they are of two sessions,
// nothing is sent (wire/batch.h), unless the call knows how to do it and says which session it
// means.
#ifndef OUTBOARD_GUEST_SESSION_H
#define OUTBOARD_GUEST_SESSION_H

#include <stdint.h>
#include <stdlib.h>

#include "cuda_driver.h"
#include "session/device.h"

#define SESSIONS_MAX DEVICES_MAX

// A session. Each pointer to a part is made by the ..._make function of the file that is named
// beside it, and only that file knows what is there. sessions_make (driver/hooks.h) calls them all
// before the connection is opened. The parts stay until the process ends.
struct session {
  unsigned number;  // its place in `sessions`, in sets of sessions and on the wire
  // A bit for each other session that was ever lent any of this one's memory (memory/peer.h). Their
  // work may use that memory next, and does not wait for what was sent here. Changes under the
  // memory lock.
  _Atomic uint8_t borrowers;

  // wire/
  int socket;                      // the descriptor plus one, so that 0 stands for none
  struct connection *connection;   // whether the network is silent, who waits to send
  struct comeback *comeback;       // NULL: the session ends with its connection (comeback.h)
  struct outbox *outbox;           // the batch (outbox.h)
  struct inbox *inbox;             // who waits for what (answer.c)
  _Atomic uint64_t answers_open;   // questions asked and not yet answered (answer.h)
  struct session_order *order;     // what was sent, and what of it is done (order.c)
  _Atomic int poison, kept_error;  // errors of the session's work (enter.c); 0: none
  _Atomic int region_state;        // enum region_state (region.h)
  struct region *region;           // memory shared with the server

  // pages/: how often pages were sent that the devices of others reach, and how much of that is
  // known to have arrived (pages.c).
  uint64_t pages_sent, pages_arrived;

  // streams/
  struct stream *legacy_stream;   // the legacy default stream (stream.c)
  unsigned stream_operations;     // that a stream of the server takes (room.h); 0: any number
  _Atomic unsigned events_reset;  // counts resets, at which all events end (event.c)
  _Atomic uint64_t calls_expected_until;  // the last launch of a graph with host functions
  struct pending *pending;                // work that may change the program's memory (pending.c)
  _Atomic uint64_t beside_functions;      // bytes sent since it was looked for (room.c)

  // memory/
  struct budget *budget;  // limits, and what is freed but may still be used (limit.c)
  struct block *spare;    // an empty block for small allocations, or NULL (memory.c)
  _Bool late_uploads;     // LateUpload and LatePayload are understood (late_upload.h)
  _Bool share_ends;       // ShareEnd and ShareCheck are understood (share_end.h)
  unsigned shared_count;  // allocations that have a share name; under the memory lock (memory.c)
  // Sets of other sessions, a bit each (peer.c): those whose devices may use this one's plain
  // memory, which changes under the memory lock; those whose processes on the server know this
  // one's, so that peer_lend may follow; those for which that was tried.
  _Atomic uint8_t peer_open_to, peer_joined;
  uint8_t peer_tried;
  unsigned peer_opened[SESSIONS_MAX];  // [n]: how often session n has opened its memory to this one
  _Atomic uint64_t peer_loans;         // the number of the last loan

  // images/ and kernels/
  struct known_images *known_images;          // what the server is known to have (image_sending.c)
  struct expected_modules *expected_modules;  // what the server opens unasked (expected.c)
  struct learnt_answer *learnt;               // what it tells of libraries (learnt.c)

  uint32_t
      cublas;  // the version of the server's cuBLAS, as 130002; 0: it serves none (remote_call.c)

  // copies/
  _Atomic uint64_t upload_cache_from;     // uploads from so many bytes on are asked for by hash
  _Atomic unsigned upload_cache_misses;   // stretches in a row of which the server had nothing
  uint64_t late_stream, crossing_stream;  // streams of our own (late_upload.c, cross_device.c)

  // driver/
  struct companion_device *companion;  // what libnvidia-ml.so.1 may know (companion.c)
};
extern struct session sessions[SESSIONS_MAX];
// For the ..._make functions: makes a part, all of it zero, where it is not there yet. False when
// there is no memory.
#define session_part(part) ((part) || ((part) = calloc(1, sizeof *(part))))

// How many sessions there are: set once, at attach. Where there is one, nothing here costs more
// than looking at this number.
extern int session_count;
// Returns the end of the sessions that there are: for (struct session *session = sessions; session
// < sessions_end(); session++)
static inline struct session *sessions_end(void) { return sessions + session_count; }

struct thread_session {
  struct session *session;
  _Bool named;       // by a handle or an address, not only by the current context
  CUresult crossed;  // not CUDA_SUCCESS: another session was named, too, and what sends gets this
};
extern __thread struct thread_session thread_session;

// Whether there is more than one session.
static inline _Bool sessions_many(void) { return __builtin_expect(session_count > 1, 0); }
// Returns the session that the calling thread is in. It may change while a call looks at the
// handles and addresses that it was given (session_follow). Who sends asks after that, and passes
// it down.
static inline struct session *session_here(void) {
  return sessions_many() ? thread_session.session : sessions;
}

// Sets of sessions have a bit for each. sessions_take() goes through a set: struct session
// *session; for (unsigned left = set; sessions_take(&left, &session);)
static inline uint8_t session_bit(const struct session *session) {
  return (uint8_t)(1u << session->number);
}
static inline _Bool sessions_have(unsigned set, const struct session *session) {
  return set >> session->number & 1;
}
static inline _Bool sessions_take(unsigned *left, struct session **session) {
  if (!*left) return 0;
  *session = &sessions[__builtin_ctz(*left)];
  *left &= *left - 1;
  return 1;
}

// To be called where a call begins: brings the thread into the session of its current context.
void session_begin_call(void);
// To be called when the program has named something of `session`, which is NULL for what is
// of none: the thread follows it there. If something of another session was named before, the
// thread stays, and the call gets `otherwise` when it sends something (session_refusal).
static inline void session_follow(struct session *session, CUresult otherwise) {
  if (!sessions_many() || !session) return;
  if (thread_session.named && thread_session.session != session) {
    if (!thread_session.crossed) thread_session.crossed = otherwise;
    return;
  }
  thread_session.session = session;
  thread_session.named = 1;
}
// Brings the thread into a session, whatever was named before.
static inline void session_use(struct session *session) {
  if (sessions_many() && session) thread_session = (struct thread_session){session, 1, 0};
}
// Brings the thread into a session for a while; session_back, given what this returned, brings it
// back. What is sent meanwhile is not refused for what the thread's call was given.
static inline struct thread_session session_switch(struct session *session) {
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
// and CUDA_SUCCESS for all other calls. session_mixed_error is the same, and cheap with one
// session.
CUresult session_refusal(void);
static inline CUresult session_mixed_error(void) {
  return sessions_many() ? session_refusal() : CUDA_SUCCESS;
}

// Return the session of a device (an ordinal) and of a context (a handle); the first session
// where there is no such device or context.
struct session *session_of_device(int device);
struct session *session_of_context(uint64_t context);
// Returns the ordinal of the device that a session leads to; 0 when the program does not see it.
int device_of_session(struct session *session);
// Returns the ordinal of the device that the thread's session leads to. A Welcome may name
// several devices, though our server names one: with one session it is that of the current context.
int device_here(void);

#endif
