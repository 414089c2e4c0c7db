// What pools do with memory that is freed, as far as memory has to know: they are above
// (allocation/), and make themselves known here before a session begins. With the lock of memory
// held.
#ifndef OUTBOARD_POOLS_H
#define OUTBOARD_POOLS_H

#include <stdint.h>

struct memory_pools {
  // `size` bytes of a pool are freed. The handle may be 0, or stale.
  void (*count_free)(uint64_t pool, uint64_t size);
  // Gives back what was freed on streams that are known to have got there.
  void (*release_settled)(void);
  // Whether anything waits for that.
  _Bool (*waits)(void);
  // All memory is gone.
  void (*forget_all)(void);
};
extern const struct memory_pools *memory_pools;

#endif
