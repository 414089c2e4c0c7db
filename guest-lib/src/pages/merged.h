// Pages of pinned memory that host and device may both change at any time (docs/mapped-memory.md).
#ifndef OUTBOARD_MERGED_H
#define OUTBOARD_MERGED_H

#include "session/session.h"

// Ranges of pinned memory with pages that both sides may change at any time (merged.c).
extern _Atomic unsigned pages_merged;
// Around waiting for work: what the host has changed goes, for the work may wait for it; and what
// the device has changed comes.
void pages_push_all(struct session *session);
void pages_look_all(struct session *session);
static inline void pages_will_wait(struct session *session) {
  if (__builtin_expect(pages_merged != 0, 0)) pages_push_all(session);
}
static inline void pages_have_waited(struct session *session) {
  if (__builtin_expect(pages_merged != 0, 0)) pages_look_all(session);
}

#endif
