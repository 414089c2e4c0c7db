// Pages of pinned memory that host and device may both change at any time (docs/mapped-memory.md).
#ifndef OUTBOARD_MERGED_H
#define OUTBOARD_MERGED_H

#include "session/session.h"

// How many ranges of pinned memory have pages that both sides may change at any time (merged.c).
extern _Atomic unsigned pages_merged;
// Sends what the host has changed of such pages to the session. To be called before waiting for
// work of the session, which may wait for that. The lock of pages is not held, here and below.
void pages_push_all(struct session *session);
// Brings what the device has changed of them. To be called after waiting.
void pages_look_all(struct session *session);
// These two do the same, and are cheap while there are no such pages.
static inline void pages_will_wait(struct session *session) {
  if (__builtin_expect(pages_merged != 0, 0)) pages_push_all(session);
}
static inline void pages_have_waited(struct session *session) {
  if (__builtin_expect(pages_merged != 0, 0)) pages_look_all(session);
}

#endif
