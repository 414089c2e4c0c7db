// What guest and server have to agree on about arrays: bytes of an element, and what an array
// counts towards a session's memory. Drivers lay arrays out as they like and do not tell how much
// memory that takes; this is what blocks of 64 bytes by up to 128 rows by up to 32 slices take, in
// pages of 64 KiB, which no layout that we know of exceeds.
#ifndef ABI_ARRAY_H
#define ABI_ARRAY_H

#include <stdint.h>

#include "cuda_driver.h"

#define ABI_ARRAY_PAGE (64u << 10)
#define ABI_ARRAY_EXTENT_MAX (1ull << 21)  // of any side of any array

// Bytes of one channel of a format of plain numbers; 0 for compressed, planar and unknown ones.
// `*channels` is how many it has to have, 0 when the program says so.
static inline unsigned abi_format_bytes(CUarray_format format, unsigned *channels) {
  *channels = 0;
  switch ((int)format) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8:
      return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF:
      return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT:
      return 4;
    case CU_AD_FORMAT_UNORM_INT_101010_2:
      *channels = 4;
      return 1;
    default:
      break;
  }
  // Normalised ones stand in rows of three: 1, 2 and 4 channels.
  if ((int)format < CU_AD_FORMAT_UNORM_INT8X1 || (int)format > CU_AD_FORMAT_SNORM_INT16X4) return 0;
  unsigned index = (unsigned)format - CU_AD_FORMAT_UNORM_INT8X1;
  *channels = 1u << index % 3;
  return index / 3 % 2 ? 2 : 1;
}

// Bytes of an element; 0 when the format does not come with so many channels.
static inline unsigned abi_element_bytes(CUarray_format format, unsigned channels) {
  unsigned needed;
  unsigned bytes = abi_format_bytes(format, &needed);
  if (needed ? channels != needed : channels != 1 && channels != 2 && channels != 4) return 0;
  return bytes * channels;
}

static inline uint64_t abi_round_to_block(uint64_t extent, uint64_t most) {
  uint64_t block = 1;
  while (block < most && block < extent) block *= 2;
  return (extent + block - 1) / block * block;
}

// Extents as in a descriptor: 0 where there is none. `layered`: the depth counts layers or faces.
// UINT64_MAX when they are larger than those of any array.
static inline uint64_t abi_array_bytes(uint64_t element, uint64_t width, uint64_t height,
                                       uint64_t depth, int layered, unsigned levels) {
  if (width > ABI_ARRAY_EXTENT_MAX || height > ABI_ARRAY_EXTENT_MAX ||
      depth > ABI_ARRAY_EXTENT_MAX || element > 16 || levels > 32)
    return UINT64_MAX;
  uint64_t bytes = 0;
  for (unsigned level = 0; level < (levels ? levels : 1); level++) {
    uint64_t row = ((width >> level ? width >> level : 1) * element + 63) / 64 * 64;
    uint64_t rows = height >> level ? height >> level : 1;
    uint64_t slices = layered ? depth : depth >> level;
    rows = abi_round_to_block(rows, 128);
    slices = layered ? slices : abi_round_to_block(slices, 32);
    uint64_t size;
    if (__builtin_mul_overflow(row * rows, slices ? slices : 1, &size) ||
        __builtin_add_overflow(bytes, size, &bytes))
      return UINT64_MAX;
  }
  if (bytes > UINT64_MAX - ABI_ARRAY_PAGE) return UINT64_MAX;
  return (bytes + ABI_ARRAY_PAGE - 1) / ABI_ARRAY_PAGE * ABI_ARRAY_PAGE;
}

#endif
