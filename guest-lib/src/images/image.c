#include "images/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <sha256.h>

#include "abi_fatbin.h"
#include "setup/log.h"
#include "wire.h"

static uint64_t padded(uint64_t size) { return (size + 7) & ~7ull; }

static CUresult append(struct image *image, uint32_t kind, const void *data, uint64_t size) {
  uint64_t whole = sizeof(struct wire_image_part) + padded(size);
  uint8_t *grown = realloc(image->bytes, image->size + whole);
  if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
  image->bytes = grown;
  struct wire_image_part part = {.kind = kind, .size = size};
  memcpy(grown + image->size, &part, sizeof part);
  memcpy(grown + image->size + sizeof part, data, size);
  memset(grown + image->size + sizeof part + size, 0, padded(size) - size);
  image->size += whole;
  return CUDA_SUCCESS;
}

static CUresult append_fatbin(struct image *image, const void *fatbin) {
  size_t size = abi_image_size(fatbin, ABI_NO_LIMIT);
  return size ? append(image, WIRE_IMAGE_FATBIN, fatbin, size) : CUDA_ERROR_INVALID_IMAGE;
}

static CUresult read_parts(const void *code, size_t limit, struct image *image) {
  size_t size;
  switch (abi_image_kind(code, limit)) {
    case ABI_IMAGE_WRAPPER: {
      struct abi_wrapper wrapper;
      if (limit != ABI_NO_LIMIT || !abi_wrapper_read(code, &wrapper))
        return CUDA_ERROR_INVALID_IMAGE;
      CUresult result = append_fatbin(image, wrapper.fatbin);
      for (size_t i = 0; i < wrapper.piece_count && !result; i++)
        result = append_fatbin(image, wrapper.pieces[i]);
      return result;
    }
    case ABI_IMAGE_FATBIN:
      size = abi_image_size(code, limit);
      return size ? append(image, WIRE_IMAGE_FATBIN, code, size) : CUDA_ERROR_INVALID_IMAGE;
    case ABI_IMAGE_ELF:
      size = abi_image_size(code, limit);
      return size ? append(image, WIRE_IMAGE_ELF, code, size) : CUDA_ERROR_INVALID_IMAGE;
    case ABI_IMAGE_PTX:
      size = abi_image_size(code, limit);
      return size ? append(image, WIRE_IMAGE_PTX, code, size) : CUDA_ERROR_INVALID_IMAGE;
    default:
      return CUDA_ERROR_INVALID_IMAGE;
  }
}

static CUresult finish(CUresult result, struct image *image) {
  if (result) {
    image_free(image);
    return result;
  }
  SHA256_CTX context;
  SHA256_Init(&context);
  SHA256_Update(&context, image->bytes, image->size);
  SHA256_Final((uint8_t *)image->hash, &context);
  return CUDA_SUCCESS;
}

CUresult image_read(const void *code, struct image *image) {
  *image = (struct image){0};
  if (!code) return CUDA_ERROR_INVALID_VALUE;
  return finish(read_parts(code, ABI_NO_LIMIT, image), image);
}

CUresult image_read_bytes(const void *code, size_t size, struct image *image) {
  *image = (struct image){0};
  return finish(read_parts(code, size, image), image);
}

CUresult image_of_input(const void *data, uint64_t size, struct image *image) {
  *image = (struct image){0};
  return finish(append(image, WIRE_IMAGE_INPUT, data, size), image);
}

CUresult image_file(const char *path, char **bytes, size_t *size) {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    log_warn("module file \"%s\" cannot be read: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return CUDA_ERROR_FILE_NOT_FOUND;
  }
  size_t all = (size_t)status.st_size, have = 0;
  *bytes = malloc(all + 1);
  while (*bytes && have < all) {
    ssize_t got = read(fd, *bytes + have, all - have);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    have += (size_t)got;
  }
  close(fd);
  if (!*bytes) return CUDA_ERROR_OUT_OF_MEMORY;
  (*bytes)[have] = 0;
  *size = have;
  return CUDA_SUCCESS;
}

CUresult image_read_file(const char *path, struct image *image) {
  *image = (struct image){0};
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  char *bytes;
  size_t size;
  CUresult result = image_file(path, &bytes, &size);
  if (result) return result;
  // PTX text in a file ends without a NUL; nothing else may count on a byte more.
  if (abi_image_kind(bytes, size) == ABI_IMAGE_PTX) size++;
  result = image_read_bytes(bytes, size, image);
  free(bytes);
  return result;
}

static void add_words(char *text, size_t room, const char *kind, uint32_t arch) {
  size_t used = strlen(text);
  const char *comma = used ? ", " : "";
  if (arch)
    snprintf(text + used, room - used, "%s%s for sm_%u", comma, kind, arch);
  else
    snprintf(text + used, room - used, "%s%s", comma, kind);
}

void image_describe(const struct image *image, char *text, size_t room) {
  text[0] = 0;
  for (uint64_t at = 0; at < image->size;) {
    struct wire_image_part part;
    memcpy(&part, image->bytes + at, sizeof part);
    const uint8_t *data = image->bytes + at + sizeof part;
    at += sizeof part + padded(part.size);
    struct abi_fatbin_reader reader;
    struct abi_fatbin_entry entry;
    if (part.kind == WIRE_IMAGE_PTX) add_words(text, room, "PTX", 0);
    if (part.kind == WIRE_IMAGE_ELF) add_words(text, room, "machine code", 0);
    if (part.kind != WIRE_IMAGE_FATBIN || !abi_fatbin_open(&reader, data, part.size)) continue;
    while (abi_fatbin_next(&reader, &entry))
      add_words(text, room, entry.kind == ABI_ENTRY_PTX ? "PTX" : "machine code", entry.arch);
  }
}

void image_free(struct image *image) {
  free(image->bytes);
  image->bytes = NULL;
}
