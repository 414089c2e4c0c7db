// Blocks of the window's part for the host: granules side by side that pinned memory lies in. A
// large allocation has a block of its own; small ones share a block of one granule, page by page.
// Everything here is called with the memory lock held (memory.h), except where it says otherwise.
// Sizes are in bytes.
#ifndef OUTBOARD_HOST_BLOCK_H
#define OUTBOARD_HOST_BLOCK_H

#include <stddef.h>
#include <stdint.h>

#include "memory/memory.h"
#include "session/session.h"

struct host_block;

// How many blocks there are. It may be read without the lock.
extern _Atomic unsigned host_blocks;

// Takes pages of zeros for pinned memory of `size` bytes, sets *address to where they lie in this
// process, and returns their block. NULL when there are no addresses or no memory.
struct host_block *host_block_take(size_t size, uint64_t *address);
// Makes a block that has only addresses: devices have the program's own memory at `owner` there.
// NULL when there are no addresses or no memory.
struct host_block *host_block_make(uint64_t size, const void *owner);
// Returns the address at which the block begins.
uint64_t host_block_address(const struct host_block *block);
// Gives back what host_block_take or host_block_make gave, which no device reaches any more. The
// block ends with the last that lies in it.
void host_block_release(struct host_block *block, uint64_t address, size_t size);

// Rounds a size up to whole pages. Takes no lock.
uint64_t host_block_round(uint64_t size);
// Returns where the library reaches the page at an address, even while the page is closed to the
// program. Takes no lock.
char *host_block_view(uint64_t address);
// Returns the program's own memory whose block `address` lies in; NULL for pinned memory that was
// allocated here, and where there is no block.
const void *host_block_owner(uint64_t address);

// Has the server put memory under all of the block, on the device of the thread's session, unless
// it is there already; it counts towards the session's limits once. CUDA_ERROR_OUT_OF_MEMORY when
// they leave no room, or what posting returns.
CUresult host_block_map(struct host_block *block);
// Undoes one host_block_map for `session`. The last of them has the server take the memory away.
void host_block_unmap(struct session *session, struct host_block *block);
// Whether the session's device may still have there what an earlier allocation left, and not zeros.
_Bool host_block_is_stale(struct session *session, const struct host_block *block);

#endif
