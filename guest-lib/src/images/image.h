// Program images as they travel: found, measured, put in one piece, hashed.
#ifndef OUTBOARD_IMAGE_H
#define OUTBOARD_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"

struct image {
  uint8_t *bytes;  // struct wire_image_part and data, each padded to 8
  uint64_t size;
  uint64_t hash[4];  // SHA-256 of bytes
};

// Reads what a program hands to cuModuleLoadData: fatbin wrapper, fatbin, ELF or PTX, without a
// length. CUDA_ERROR_INVALID_IMAGE when it is none of them.
CUresult image_read(const void *code, struct image *image);
// The same for bytes whose number is known, and for a file's contents.
CUresult image_read_bytes(const void *code, size_t size, struct image *image);
CUresult image_read_file(const char *path, struct image *image);
// The same for an input of a link, which is not looked into.
CUresult image_of_input(const void *data, uint64_t size, struct image *image);
// A file as it is, with a zero behind it that `size` does not count.
CUresult image_file(const char *path, char **bytes, size_t *size);
// What the image holds, for a person: "PTX for sm_52, machine code for sm_75". Cut where it is too
// long.
void image_describe(const struct image *image, char *text, size_t room);
void image_free(struct image *image);

#endif
