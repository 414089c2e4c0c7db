// Device memory: which addresses of the session's window are allocated. The guest decides
// everything here; the server only puts memory under ranges when told.
#ifndef OUTBOARD_MEMORY_H
#define OUTBOARD_MEMORY_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

enum allocation_kind {
  ALLOCATION_PLAIN,
  ALLOCATION_VARIABLE,
  ALLOCATION_MAPPING,
  ALLOCATION_IMPORTED,
  ALLOCATION_MANAGED,  // shared with the host (pages.h)
  ALLOCATION_HOST,     // pinned memory of the host that the device reaches (host_memory.h)
};

// What an address belongs to.
struct allocation {
  enum allocation_kind kind;
  struct session *session;  // whose server has it
  int device;
  uint64_t address;
  uint64_t size;      // as asked for
  uint64_t context;   // handle; 0 for module variables and mappings
  uint64_t pool;      // handle of the pool it is of, or 0
  uint64_t id;        // unlike that of any other allocation, ever
  unsigned access;    // what the device may do: ACCESS_READ, ACCESS_WRITE
  _Bool uneven;       // a mapping whose granules differ in access
  _Bool shareable;    // a mapping whose memory was made to be shared
  uint8_t borrowers;  // sessions whose devices may use it beside its own (peer.h), a bit each
};
enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_ALL = 3 };

// Starts the window, which all sessions share, in granules (window.h). To be called once, at
// attach, when memory_join (limit.h) was called for each session. All are in bytes.
void memory_start(uint64_t window_base, uint64_t window_size, uint64_t granule);

// Guards what lies where, and what has been taken of the limit.
extern pthread_mutex_t memory_lock;

// ---- the caller holds the memory lock; sizes are in bytes --------------------------------------

// Waits until no work uses what was freed in the session, and releases it. The lock is let go
// meanwhile. Returns the errors of the work.
CUresult memory_make_room(struct session *session);
// Returns a number that no other allocation has or had.
uint64_t memory_next_id(void);

// Makes a plain allocation of `size` bytes, not 0, in the session, to which `device` belongs, and
// sets *address to it. CUDA_ERROR_OUT_OF_MEMORY at once when there is no memory:
// memory_make_room may help then, once.
CUresult memory_allocate(struct session *session, uint64_t size, int device, uint64_t context,
                         uint64_t pool, uint64_t *address);
// Returns how much memory an allocation of that size takes.
uint64_t memory_capacity(uint64_t size);
// Takes the allocation that begins at `address` from the program. Its memory stays taken, as work
// may still use it, until memory_release or memory_return. Sets *capacity to how large an
// allocation could be there. CUDA_ERROR_INVALID_VALUE when no allocation begins there.
CUresult memory_leave(uint64_t address, uint64_t *capacity);
// Notes that the plain allocation that begins at `address` gets a share name, which ends when it is
// freed. False when none begins there that has this id.
_Bool memory_name(uint64_t address, uint64_t id);
// Makes what memory_leave took an allocation again, of any size up to its capacity. `session` is
// the one whose server has it.
void memory_return(struct session *session, uint64_t address, uint64_t size, uint64_t context,
                   uint64_t pool);
// Gives back the memory that memory_leave took at `address`, and that no work uses any more.
void memory_release(uint64_t address);

// ---- the caller does not hold it ---------------------------------------------------------------

// Makes an allocation, plain or managed, in the current context. Waits for work where that may free
// enough. CUDA_ERROR_INVALID_VALUE without `address` or for no bytes, CUDA_ERROR_OUT_OF_MEMORY, or
// the errors of the work.
CUresult memory_obtain(uint64_t size, enum allocation_kind kind, CUdeviceptr *address);
// Frees the allocation that begins at `address`. Its memory is released once all work sent until
// now is known to be done. CUDA_ERROR_INVALID_VALUE when no allocation begins there,
// CUDA_ERROR_OUT_OF_MEMORY when there is no memory to note it. The thread is in its session from
// now on. What had a share name has none when this returns.
CUresult memory_free(uint64_t address);
// To be called before work of the session may use what is at `address`: managed memory that its
// device does not reach moves there, once the work of the other session is done; for anything else
// nothing happens. CUDA_ERROR_OUT_OF_MEMORY, or the errors of that work.
CUresult memory_bring_managed(struct session *session, uint64_t address);

// Sets *unused to how much memory the session can still allocate, in one piece, and *total to its
// limit.
void memory_tell(struct session *session, uint64_t *unused, uint64_t *total);

// To be called after a reset of the context: forgets all memory that the session has, except for
// what outlives resets. The server has nothing of it any more.
void memory_forget_all(struct session *session);
// Frees what was allocated in a created context of the session, which ends.
void memory_destroy_of(struct session *session, uint64_t context);
// Ends all share names of the session's allocations, whose context is released.
void memory_unname_all(struct session *session);

#endif
