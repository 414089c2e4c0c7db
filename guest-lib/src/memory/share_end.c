#include "memory/share_end.h"

#include "guest_calls.h"
#include "session/session.h"
#include "wire/acknowledge.h"

// Sessions in which this thread has ended names, a bit each.
static __thread unsigned ended_in;

void share_end(const struct holding *whole, uint64_t address, uint64_t size) {
  struct session *session = whole->session;
  if (!session->share_ends) return;
  struct thread_session before = session_switch(session);
  put_ShareEnd(session, whole->address, address - whole->address, size);
  session_back(before);
  ended_in |= session_bit(session);
}

void share_ends_await(void) {
  struct session *session;
  for (unsigned left = ended_in; sessions_take(&left, &session);) {
    struct thread_session before = session_switch(session);
    server_acknowledge(session);
    session_back(before);
  }
  ended_in = 0;
}
