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

// The window that all sessions share, and the limits of the thread's session (limit.h).
void memory_start(uint64_t window_base, uint64_t window_size, uint64_t limit, uint64_t pinned);

// Guards what lies where, and what has been taken of the limit.
extern pthread_mutex_t memory_lock;
// With it: waits until what was freed is used by no work any more, and gives it back. The lock is
// let go meanwhile.
CUresult memory_make_room(struct session *session);
uint64_t memory_next_id(void);  // names an allocation, unlike any other

// ---- with the lock: the ways that the memory of an allocation goes ----

// Memory that counts towards the limit, in the window, for an allocation; CUDA_ERROR_OUT_OF_MEMORY
// at once when there is none.
CUresult memory_allocate(uint64_t size, int device, uint64_t context, uint64_t pool,
                         uint64_t *address);
// How much is taken for an allocation of a size.
uint64_t memory_capacity(uint64_t size);
// The allocation that begins at `address` is one no more, but work may still use its memory.
// `capacity`: how much could lie there.
CUresult memory_leave(uint64_t address, uint64_t *capacity);
// It is one again, of another size within its capacity.
void memory_return(struct session *session, uint64_t address, uint64_t size, uint64_t context,
                   uint64_t pool);
// It has left, and no work uses it any more.
void memory_release(uint64_t address);

// ---- without it ----

// A new allocation in the current context, plain or managed; its end.
CUresult memory_obtain(uint64_t size, enum allocation_kind kind, CUdeviceptr *address);
CUresult memory_free(uint64_t address);
// Work of the thread's session may use the managed memory at `address`, if there is such: it moves
// to that session's device, after what another's does with it.
CUresult memory_bring_managed(uint64_t address);

// A reset of the context, or the end of a created one.
void memory_forget_all(struct session *session);
void memory_destroy_of(uint64_t context);

#endif
