#include "streams/pending.h"

#include <pthread.h>
#include <stdlib.h>

#include "session/session.h"
#include "wire/order.h"

#define STREAMS_MAX 32

// By stream: later work of a stream covers what came before.
struct pending {
  struct {
    uint64_t stream, sequence;
  } at[STREAMS_MAX];
  unsigned count;
  uint64_t others;  // of streams for which there was no room: until all up to here is done
};
_Atomic _Bool pending_seen;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // innermost but for handles

_Bool pending_make(struct session *session) { return session_part(session->pending); }

// With the lock.
static void drop_done(struct session *session) {
  struct pending *here = session->pending;
  unsigned left = 0;
  for (unsigned i = 0; i < here->count; i++)
    if (!stream_has_done(session, here->at[i].stream, here->at[i].sequence))
      here->at[left++] = here->at[i];
  here->count = left;
  if (here->others <= context_settled_sequence(session)) here->others = 0;
}

void pending_note(struct session *session, uint64_t stream) {
  struct pending *here = session->pending;
  uint64_t sequence = stream_last_sequence(session, stream);
  pending_seen = 1;
  pthread_mutex_lock(&lock);
  unsigned i = 0;
  while (i < here->count && here->at[i].stream != stream) i++;
  if (i == STREAMS_MAX) {
    drop_done(session);
    i = here->count;
  }
  if (i < STREAMS_MAX) {
    here->at[i].stream = stream;
    here->at[i].sequence = sequence;
    if (i == here->count) here->count++;
  } else if (here->others < sequence) {
    here->others = sequence;
  }
  pthread_mutex_unlock(&lock);
}

// A graph may wait for another session's work, too.
_Bool pending_any(void) {
  _Bool any = 0;
  pthread_mutex_lock(&lock);
  for (struct session *session = sessions; session < sessions_end() && !any; session++) {
    const struct pending *of = session->pending;
    if (!of->count && !of->others) continue;
    drop_done(session);
    any = of->count || of->others;
  }
  pthread_mutex_unlock(&lock);
  return any;
}
