// What pools do with memory that is freed, as far as memory has to know: they are above
// (allocation/), and make themselves known here before a session begins. All is called with the
// memory lock held.
#ifndef OUTBOARD_POOL_HOOKS_H
#define OUTBOARD_POOL_HOOKS_H

#include <stdint.h>

#include "session/session.h"

struct memory_pools {
  // Counts `size` bytes of a pool as freed. The pool's handle may be 0, or stale.
  void (*count_free)(uint64_t pool, uint64_t size);
  // Releases what was freed on streams that are known to have come beyond the free.
  void (*release_settled)(void);
  // Whether anything freed on a stream is not released yet.
  _Bool (*waits)(void);
  // Forgets what was freed on streams of the session, after a reset of the context.
  void (*forget_all)(struct session *session);
};
extern const struct memory_pools *memory_pools;

#endif
