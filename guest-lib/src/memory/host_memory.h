// Pinned host memory: what is pinned, and where the device has it. Allocated memory lies in the
// window's part for the host, so that its address is the device's as well; registered memory gets
// an address there of its own. The device has nothing under either until it is to reach it: then
// pages are shared (pages.h). All functions are called without the memory lock.
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
  _Bool shared;              // a device reaches it
  struct session *session;   // whose device that is: one at a time
  uint64_t device;           // its address for the device; 0: it has none yet
  struct host_block *block;  // where that address lies
};

// Whether [pointer, pointer + size) is pinned as a whole.
_Bool host_is_pinned(const void *pointer, size_t size);
// Sets *found to the pinned range that holds `pointer`. False when there is none.
_Bool host_find(const void *pointer, struct host_range *found);

// Returns the address under which devices can have what is at `pointer`, and mints it if there is
// none yet. 0 when the memory is not pinned, or no address is to be had.
uint64_t host_device_address(const void *pointer);
// Sets *found to the range whose address for devices `address` is, shared or not. False when there
// is none.
_Bool host_find_on_device(uint64_t address, struct host_range *found);

// Lets the device of `session`, which is the thread's, reach the range whose address for devices
// `address` is. Waits for copies that are on their way to the program and, where another session's
// device reaches the range, for the work of that. CUDA_ERROR_OUT_OF_MEMORY when the session's
// limits leave no room, CUDA_ERROR_INVALID_VALUE when there is no such range, or the errors of what
// was waited for.
CUresult host_share(struct session *session, uint64_t address);
// Does so for all pinned memory that the parameters of a kernel point to (aligned words of 8
// bytes in `size` bytes), and brings managed memory that they point to (memory_bring_managed).
// CUDA_ERROR_OUT_OF_MEMORY, or CUDA_ERROR_NOT_SUPPORTED when one points to a variable that the
// device cannot reach.
CUresult host_share_named(const unsigned char *parameters, uint32_t size);

// Whether an address is of pinned memory that was allocated in the window and that no device
// reaches.
_Bool host_is_only_here(uint64_t address);

// How many ranges a device reaches, and how many of those have another address in the program.
extern _Atomic unsigned host_shared;
extern _Atomic unsigned host_shadows;

// Returns the address under which a device has what is at `pointer`, if a device reaches it, else
// `pointer`.
const void *host_on_device_slow(const void *pointer);
static inline const void *host_on_device(const void *pointer) {
  return __builtin_expect(host_shadows != 0, 0) ? host_on_device_slow(pointer) : pointer;
}

// Returns where the library itself reads and writes what is at `pointer`: pages of pinned memory
// may be closed to the program.
void *host_view(const void *pointer);
// Returns the same for a use that is short, and ended with host_used; no memory is shared before
// that. While no pinned memory was ever shared, it is `pointer`, whose pages are in use already.
void *host_use(const void *pointer);
void host_used(void);

#endif
