#include "image.h"

#include <lz4.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "abi_fatbin.h"
#include "null.h"

// More text than any program has: what an entry claims is not trusted with all memory.
#define TEXT_MOST (256ull << 20)

void image_free(struct kernel *kernel) {
  while (kernel) {
    struct kernel *next = kernel->next;
    free(kernel->name);
    free(kernel->parameters);
    free(kernel);
    kernel = next;
  }
}

// The entry's text, to be freed; NULL when it cannot be unpacked.
static char *unpack(const struct abi_fatbin_entry *entry, uint64_t *length) {
  bool packed = entry->flags & (ABI_FATBIN_ZSTD | ABI_FATBIN_LZ4);
  uint64_t size = packed ? entry->uncompressed_size : entry->payload_size;
  if (size > TEXT_MOST) return NULL;
  char *text = malloc(size ? size : 1);
  if (!text) return NULL;
  bool whole = true;
  if (entry->flags & ABI_FATBIN_ZSTD) {
    whole = ZSTD_decompress(text, size, entry->payload, entry->compressed_size) == size;
  } else if (entry->flags & ABI_FATBIN_LZ4) {
    whole = LZ4_decompress_safe((const char *)entry->payload, text, (int)entry->compressed_size,
                                (int)size) == (int)size;
  } else {
    memcpy(text, entry->payload, size);
  }
  if (!whole) {
    free(text);
    return NULL;
  }
  // Entries are padded with NULs.
  *length = strnlen(text, size);
  return text;
}

// The first PTX of a fatbin: other entries are the same code for other devices.
static CUresult from_fatbin(const void *fatbin, struct kernel **tail) {
  struct abi_fatbin_reader reader;
  struct abi_fatbin_entry entry;
  if (!abi_fatbin_open(&reader, fatbin, ABI_NO_LIMIT)) return CUDA_ERROR_INVALID_IMAGE;
  while (abi_fatbin_next(&reader, &entry)) {
    if (entry.kind != ABI_ENTRY_PTX) continue;
    uint64_t length;
    char *text = unpack(&entry, &length);
    if (!text) return CUDA_ERROR_INVALID_IMAGE;
    bool read = ptx_kernels(text, length, tail);
    free(text);
    return read ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
  }
  return reader.malformed ? CUDA_ERROR_INVALID_IMAGE : CUDA_ERROR_NO_BINARY_FOR_GPU;
}

static CUresult from_wrapper(const void *image, struct kernel **kernels) {
  struct abi_wrapper wrapper;
  if (!abi_wrapper_read(image, &wrapper)) return CUDA_ERROR_INVALID_IMAGE;
  CUresult result = from_fatbin(wrapper.fatbin, kernels);
  if (result != CUDA_ERROR_NO_BINARY_FOR_GPU) return result;
  // -rdc: the linked program is machine code, the PTX is in the pieces.
  struct kernel **tail = kernels;
  for (size_t i = 0; i < wrapper.piece_count; i++) {
    CUresult piece = from_fatbin(wrapper.pieces[i], tail);
    if (piece == CUDA_SUCCESS) result = CUDA_SUCCESS;
    while (*tail) tail = &(*tail)->next;
  }
  return result;
}

CUresult image_kernels(const void *image, struct kernel **kernels) {
  *kernels = NULL;
  CUresult result = CUDA_ERROR_NO_BINARY_FOR_GPU;
  switch (abi_image_kind(image, ABI_NO_LIMIT)) {
    case ABI_IMAGE_UNKNOWN:
      return CUDA_ERROR_INVALID_IMAGE;
    case ABI_IMAGE_PTX:
      result = ptx_kernels(image, strlen(image), kernels) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_PTX;
      break;
    case ABI_IMAGE_FATBIN:
      result = from_fatbin(image, kernels);
      break;
    case ABI_IMAGE_WRAPPER:
      result = from_wrapper(image, kernels);
      break;
    case ABI_IMAGE_ELF:
      break;
  }
  if (result) {
    null_log("the image has no PTX that can be read, and kernels are read from PTX only");
    image_free(*kernels);
    *kernels = NULL;
  }
  return result;
}
