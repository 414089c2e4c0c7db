// Pinned host memory. It stays in the guest: pinning only tells which copies may be deferred.
#ifndef OUTBOARD_HOST_MEMORY_H
#define OUTBOARD_HOST_MEMORY_H

#include <stddef.h>

struct host_range {
  void *base;
  size_t size;
  unsigned flags;
  int registered;  // the program's own memory
};

// Whether [pointer, pointer + size) is pinned as a whole.
_Bool host_is_pinned(const void *pointer, size_t size);
_Bool host_find(const void *pointer, struct host_range *found);

#endif
