// Pinned host memory: what is pinned, and where the device has it. Allocated memory lies in the
// window's part for the host, so that its address is the device's as well; registered memory gets
// an address there of its own. The device has nothing under either until it is to reach it: then
// pages are shared (pages.h).
#ifndef OUTBOARD_HOST_MEMORY_H
#define OUTBOARD_HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "session/session.h"

struct host_range {
  void *base;
  size_t size;
  unsigned flags;
  int registered;            // the program's own memory
  _Bool outside;             // not in the window, though allocated: no address was to be had there
  _Bool shared;              // a device reaches it,
  struct session *session;   // this session's: one at a time
  uint64_t device;           // its address for the device; 0: it has none yet
  struct host_block *block;  // where that lies
};

// Whether [pointer, pointer + size) is pinned as a whole.
_Bool host_is_pinned(const void *pointer, size_t size);
_Bool host_find(const void *pointer, struct host_range *found);

// What the device would have at its address, which is minted; 0 when there is none.
uint64_t host_device_address(const void *pointer);
// The range that the device has, or would have, at an address.
_Bool host_find_on_device(uint64_t address, struct host_range *found);

// Sees to it that the device reaches what it would have at `address`. OUT_OF_MEMORY when the
// session has no more, INVALID_VALUE when there is nothing.
CUresult host_share(struct session *session, uint64_t address);
// The same of all that a kernel's parameters name.
CUresult host_share_named(const unsigned char *parameters, uint32_t size);

// Whether an address of the window's part for the host is pinned memory that the device has nothing
// of.
_Bool host_is_only_here(uint64_t address);

extern _Atomic unsigned host_shared;   // ranges that the device reaches,
extern _Atomic unsigned host_shadows;  // and those of them that lie elsewhere in the program

// Registered memory that the device reaches is where it has it; everything else is where it is.
const void *host_on_device_slow(const void *pointer);
static inline const void *host_on_device(const void *pointer) {
  return __builtin_expect(host_shadows != 0, 0) ? host_on_device_slow(pointer) : pointer;
}

// Where the library itself reads and writes pinned memory: pages may be closed to the program.
void *host_view(const void *pointer);
// The same for what is over soon, between these two: while no pinned memory was ever the device's,
// that is where the program has it, whose pages are in use already. Nothing is shared meanwhile.
void *host_use(const void *pointer);
void host_used(void);

#endif
