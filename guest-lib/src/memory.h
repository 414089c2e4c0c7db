// Device memory: which addresses of the session's window are allocated. The guest decides
// everything here; the server only puts memory under ranges when told.
#ifndef OUTBOARD_MEMORY_H
#define OUTBOARD_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"

struct allocation {
  uint64_t address;
  uint64_t size;     // as asked for
  uint64_t context;  // handle; 0 for module variables
};

void memory_start(uint64_t window_base, uint64_t window_size, uint64_t limit);

// CUDA_SUCCESS when [address, address + size) lies in one live allocation or module variable.
CUresult memory_check(uint64_t address, uint64_t size);
// The allocation that holds `address`. False when there is none.
_Bool memory_find(uint64_t address, struct allocation *found);
// Whether an address is the device's: inside the window or in a module's variable.
_Bool memory_is_device(const void *pointer);

// Module variables lie where the driver put them.
void memory_add_variable(uint64_t address, uint64_t size);
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

#endif
