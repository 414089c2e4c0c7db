#include "images/image.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "abi_descriptor.h"
#include "abi_fatbin.h"
#include "base/part_hash.h"
#include "setup/log.h"
#include "wire.h"

static uint64_t padded(uint64_t size) { return (size + 7) & ~7ull; }

// Makes room for a part of `size` bytes, of which the last ones are written: the padding. *data is
// where the rest is to be written.
static CUresult append_room(struct image *image, uint32_t kind, uint64_t size, uint8_t **data) {
  uint64_t whole = sizeof(struct wire_image_part) + padded(size);
  if (size > WIRE_IMAGE_MAX || whole > WIRE_IMAGE_MAX || image->size > WIRE_IMAGE_MAX - whole) {
    log_error(
        "an image is not loaded: its %llu MiB, of what this device can use, are beyond the "
        "%llu MiB that a server takes",
        (unsigned long long)((image->size + size) >> 20),
        (unsigned long long)(WIRE_IMAGE_MAX >> 20));
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  uint8_t *grown = realloc(image->bytes, image->size + whole);
  if (!grown) return CUDA_ERROR_OUT_OF_MEMORY;
  image->bytes = grown;
  struct wire_image_part part = {.kind = kind, .size = size};
  memcpy(grown + image->size, &part, sizeof part);
  *data = grown + image->size + sizeof part;
  memset(*data + size, 0, padded(size) - size);
  image->size += whole;
  return CUDA_SUCCESS;
}

static CUresult append(struct image *image, uint32_t kind, const void *data, uint64_t size) {
  uint8_t *to;
  CUresult result = append_room(image, kind, size, &to);
  if (!result) memcpy(to, data, size);
  return result;
}

static CUresult append_fatbin(struct image *image, const struct selection *selection,
                              const void *fatbin, size_t limit) {
  size_t size =
      abi_image_kind(fatbin, limit) == ABI_IMAGE_FATBIN ? abi_image_size(fatbin, limit) : 0;
  if (!size) return CUDA_ERROR_INVALID_IMAGE;
  uint8_t *to;
  const size_t left = selection_size(selection, fatbin, size);
  CUresult result = append_room(image, WIRE_IMAGE_FATBIN, left, &to);
  if (!result && !selection_write(selection, fatbin, size, to, left))
    result = CUDA_ERROR_INVALID_IMAGE;
  return result;
}

static CUresult read_wrapper(const void *code, const struct selection *selection,
                             struct image *image) {
  struct abi_wrapper wrapper;
  if (!abi_wrapper_read(code, &wrapper)) return CUDA_ERROR_INVALID_IMAGE;
  // The driver may link the pieces anew, and those have to be of one architecture.
  if (wrapper.piece_count) selection = NULL;
  CUresult result = append_fatbin(image, selection, wrapper.fatbin, ABI_NO_LIMIT);
  for (size_t i = 0; i < wrapper.piece_count && !result; i++)
    result = append_fatbin(image, NULL, wrapper.pieces[i], ABI_NO_LIMIT);
  return result;
}

static CUresult read_parts(const void *code, size_t limit, const struct selection *selection,
                           struct image *image) {
  size_t size;
  switch (abi_image_kind(code, limit)) {
    case ABI_IMAGE_WRAPPER:
      return limit == ABI_NO_LIMIT ? read_wrapper(code, selection, image)
                                   : CUDA_ERROR_INVALID_IMAGE;
    case ABI_IMAGE_FATBIN:
      return append_fatbin(image, selection, code, limit);
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
  struct part_hash hash;
  part_hash(image->bytes, image->size, &hash);
  memcpy(image->hash, hash.words, sizeof image->hash);
  return CUDA_SUCCESS;
}

CUresult image_read(const void *code, const struct selection *selection, struct image *image) {
  *image = (struct image){0};
  if (!code) return CUDA_ERROR_INVALID_VALUE;
  return finish(read_parts(code, ABI_NO_LIMIT, selection, image), image);
}

CUresult image_read_bytes(const void *code, size_t size, const struct selection *selection,
                          struct image *image) {
  *image = (struct image){0};
  return finish(read_parts(code, size, selection, image), image);
}

CUresult image_of_input(const void *data, uint64_t size, struct image *image) {
  *image = (struct image){0};
  return finish(append(image, WIRE_IMAGE_INPUT, data, size), image);
}

// -1, with a line in the log, when there is no such file.
static int open_file(const char *path, size_t *size) {
  int fd = descriptor_above(open(path, O_RDONLY | O_CLOEXEC));
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    log_warn("module file \"%s\" cannot be read: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
    return -1;
  }
  *size = (size_t)status.st_size;
  return fd;
}

CUresult image_file(const char *path, char **bytes, size_t *size) {
  size_t all, have = 0;
  int fd = open_file(path, &all);
  if (fd < 0) return CUDA_ERROR_FILE_NOT_FOUND;
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

// Smaller files are read whole, as they are safe then from who shortens them meanwhile.
#define MAPPED_MIN (16u << 20)

// True when the file is large and no text, and *result is what reading it gave.
static _Bool read_mapped(const char *path, const struct selection *selection, struct image *image,
                         CUresult *result) {
  size_t size;
  int fd = open_file(path, &size);
  if (fd < 0) {
    *result = CUDA_ERROR_FILE_NOT_FOUND;
    return 1;
  }
  void *bytes = size < MAPPED_MIN ? MAP_FAILED : mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
  close(fd);
  if (bytes == MAP_FAILED) return 0;
  _Bool text = abi_image_kind(bytes, size) == ABI_IMAGE_PTX;
  if (!text) *result = image_read_bytes(bytes, size, selection, image);
  munmap(bytes, size);
  return !text;
}

CUresult image_read_file(const char *path, const struct selection *selection, struct image *image) {
  *image = (struct image){0};
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  char *bytes;
  size_t size;
  CUresult result;
  if (read_mapped(path, selection, image, &result)) return result;
  result = image_file(path, &bytes, &size);
  if (result) return result;
  // PTX text in a file ends without a NUL; nothing else may count on a byte more.
  if (abi_image_kind(bytes, size) == ABI_IMAGE_PTX) size++;
  result = image_read_bytes(bytes, size, selection, image);
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
