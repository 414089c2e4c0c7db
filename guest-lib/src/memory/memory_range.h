// What an address belongs to, and whether a range is the program's.
#ifndef OUTBOARD_MEMORY_RANGE_H
#define OUTBOARD_MEMORY_RANGE_H

#include <stdint.h>

#include "cuda_driver.h"
#include "memory/memory.h"

// Check a range of device addresses before work of the thread's session uses it. CUDA_SUCCESS when
// [address, address + size) lies in one live allocation or module variable, or in mappings side by
// side, and the device may use it; otherwise the error that the program gets. Pages of it that the
// host shares are made ready for the device; memory_check_source is for work that only reads them.
// The lock of memory is not held.
CUresult memory_check(uint64_t address, uint64_t size);
CUresult memory_check_source(uint64_t address, uint64_t size);
// Sets *found to the allocation that holds `address`. False when there is none.
_Bool memory_find(uint64_t address, struct allocation *found);
// Does the same for a caller that holds the lock of memory.
_Bool memory_find_locked(uint64_t address, struct allocation *found);
// Whether an address is the device's: inside the window or in a module's variable, and not pinned
// memory that the device has nothing of.
_Bool memory_is_device(const void *pointer);
// Whether an address of the device's is one of the host's as well: managed memory, and pinned
// memory that the device reaches.
_Bool memory_is_shared(const void *pointer);

// Return how many bytes an operation touches, from the first to behind the last; UINT64_MAX when
// the numbers overflow, which no range holds.
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

// Checks a fill of `height` rows of `width` elements of `unit` bytes, rows `pitch` bytes apart, as
// memory_check does. CUDA_ERROR_INVALID_VALUE unless the address and the pitch are multiples of the
// unit and the pitch holds a row. The pitch of a single row does not matter, and a fill of nothing
// is always in order.
static inline CUresult memory_check_fill(uint64_t address, uint64_t pitch, uint64_t height,
                                         uint64_t width, uint64_t unit) {
  uint64_t row = span_1d(width, unit);
  if (!row || !height) return CUDA_SUCCESS;
  if (address % unit || (height > 1 && (pitch % unit || pitch < row)))
    return CUDA_ERROR_INVALID_VALUE;
  return memory_check(address, span_2d(pitch, height, row));
}

#endif
