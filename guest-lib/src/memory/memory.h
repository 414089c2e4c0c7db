// Device memory: which addresses of the session's window are allocated. The guest decides
// everything here; the server only puts memory under ranges when told.
#ifndef OUTBOARD_MEMORY_H
#define OUTBOARD_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"

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
  unsigned lane;  // whose server has it
  int device;
  uint64_t address;
  uint64_t size;     // as asked for
  uint64_t context;  // handle; 0 for module variables and mappings
  uint64_t pool;     // handle of the pool it is of, or 0
  uint64_t id;       // unlike that of any other allocation, ever
  unsigned access;   // what the device may do: ACCESS_READ, ACCESS_WRITE
  _Bool uneven;      // a mapping whose granules differ in access
  _Bool shareable;   // a mapping whose memory was made to be shared
  uint8_t visitors;  // lanes whose devices may use it beside its own (peer.h), a bit each
};
enum { ACCESS_READ = 1, ACCESS_WRITE = 2, ACCESS_ALL = 3 };

// The window that all lanes share, and the limits of the thread's lane; of another lane, its
// limits. `pinned`: of pinned memory that does not count towards the limit.
void memory_start(uint64_t window_base, uint64_t window_size, uint64_t limit, uint64_t pinned);
void memory_join(uint64_t limit, uint64_t pinned);

// A new allocation in the current context, plain or managed; its end.
CUresult memory_obtain(uint64_t size, enum allocation_kind kind, CUdeviceptr *address);
CUresult memory_free(uint64_t address);
// Work of the thread's lane may use the managed memory at `address`, if there is such: it moves to
// that lane's device, after what another's does with it.
CUresult memory_bring_managed(uint64_t address);

// CUDA_SUCCESS when [address, address + size) lies in one live allocation or module variable, or in
// mappings side by side, and the device may use it. What the host shares of it is the device's from
// now on; with the second, for it to read.
CUresult memory_check(uint64_t address, uint64_t size);
CUresult memory_check_source(uint64_t address, uint64_t size);
// The allocation that holds `address`. False when there is none.
_Bool memory_find(uint64_t address, struct allocation *found);
// Whether an address is the device's: inside the window or in a module's variable, and not pinned
// memory that the device has nothing of.
_Bool memory_is_device(const void *pointer);
// Whether it is the host's as well.
_Bool memory_is_shared(const void *pointer);

// Memory of the device that has no address, as that of arrays: it counts towards the limit like
// what has. Once nothing uses what was left any more, `end` is called with the lock of memory held;
// it is not to tell the server when everything is forgotten.
CUresult memory_take_beside(uint64_t bytes);
CUresult memory_leave_beside(uint64_t bytes, void (*end)(void *object, _Bool tell), void *object);

// What the context's limits were raised by, in bytes of the device's memory, counts so, too.
CUresult memory_raise(uint64_t bytes);

// Module variables lie where the driver put them.
void memory_add_variable(uint64_t address, uint64_t size, _Bool managed);
void memory_remove_variable(uint64_t address);

// A reset of the context, or the end of a created one.
void memory_forget_all(void);
void memory_destroy_of(uint64_t context);

// Bytes an operation touches; UINT64_MAX when the numbers overflow, which no range holds.
static inline uint64_t span_1d(uint64_t count, uint64_t element) {
  uint64_t bytes;
  return __builtin_mul_overflow(count, element, &bytes) ? UINT64_MAX : bytes;
}
static inline uint64_t span_2d(uint64_t pitch, uint64_t height, uint64_t width) {
  uint64_t bytes;
  if (height == 0 || width == 0) return 0;
  if (__builtin_mul_overflow(pitch, height - 1, &bytes) ||
      __builtin_add_overflow(bytes, width, &bytes))
    return UINT64_MAX;
  return bytes;
}

// What a fill touches: `height` rows of `width` elements of `unit` bytes. Where it begins and the
// pitch are multiples of that; one row has no use for a pitch, and nothing is nowhere.
static inline CUresult memory_check_fill(uint64_t address, uint64_t pitch, uint64_t height,
                                         uint64_t width, uint64_t unit) {
  uint64_t row = span_1d(width, unit);
  if (!row || !height) return CUDA_SUCCESS;
  if (address % unit || (height > 1 && (pitch % unit || pitch < row)))
    return CUDA_ERROR_INVALID_VALUE;
  return memory_check(address, span_2d(pitch, height, row));
}

#endif
