// What is freed has no share name any more: another process that still has the name opens nothing
// by it, and what is allocated in the same place later gets a name of its own (docs/sharing.md).
#ifndef OUTBOARD_SHARE_END_H
#define OUTBOARD_SHARE_END_H

#include <stdint.h>

#include "memory/window.h"

// Ends the share name of an allocation of `size` bytes at `address`, which lies in `whole`. Posted.
// Nothing happens where the server does not know how: it ends the name with the mapping then. The
// caller holds the memory lock.
void share_end(const struct holding *whole, uint64_t address, uint64_t size);

// To be called without the memory lock, before a call returns that may have freed memory: where the
// thread has ended share names since it last was called, waits until the server has done so.
void share_ends_await(void);

#endif
