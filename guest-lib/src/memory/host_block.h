// Granules of the window's part for the host, and what of them is taken for pinned memory.
// Everything here is called with the lock of memory held (memory.h), but for host_block_view.
#ifndef OUTBOARD_HOST_BLOCK_H
#define OUTBOARD_HOST_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "memory/memory.h"
#include "session/session.h"

struct host_block;

extern _Atomic unsigned host_blocks;  // there are

// Pages of zeros for pinned memory of a size, at `address` in this process. NULL when there are
// none.
struct host_block *host_block_take(size_t size, uint64_t *address);
// Addresses alone, for the program's own memory at `owner`.
struct host_block *host_block_make(uint64_t size, const void *owner);
uint64_t host_block_address(const struct host_block *block);
// What of it was taken goes.
void host_block_release(struct host_block *block, uint64_t address, size_t size);

uint64_t host_block_round(uint64_t size);  // to whole pages
// Where pages at an address can always be reached. Takes no lock.
char *host_block_view(uint64_t address);
// The program's memory that an address stands for; NULL when it stands for itself.
const void *host_block_owner(uint64_t address);

// The device has memory there, which counts towards the limit, as often as it is mapped.
CUresult host_block_map(struct host_block *block);
void host_block_unmap(struct session *session, struct host_block *block);
// Whether it may not be zero where nothing has been written.
_Bool host_block_is_stale(struct session *session, const struct host_block *block);

#endif
