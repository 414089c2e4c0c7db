// Program images as they travel: found, measured, put in one piece, hashed.
#ifndef OUTBOARD_IMAGE_H
#define OUTBOARD_IMAGE_H

#include <stddef.h>
#include <stdint.h>

#include "cuda_driver.h"
#include "images/selection.h"

struct image {
  uint8_t *bytes;  // struct wire_image_part and data, each padded to 8
  uint64_t size;
  uint64_t hash[4];  // of bytes (base/part_hash.h)
};

// Reads what a program hands to cuModuleLoadData: fatbin wrapper, fatbin, ELF or PTX, without a
// length. Of a fatbin only the selection's entries are read, all of them without a selection or
// where it is to be linked with others. The caller frees the image (image_free).
// CUDA_ERROR_INVALID_IMAGE when it is none of them, CUDA_ERROR_INVALID_VALUE for NULL,
// CUDA_ERROR_OUT_OF_MEMORY when there is no memory, or servers take no image of that size.
CUresult image_read(const void *code, const struct selection *selection, struct image *image);
// Does the same with `size` bytes, of which none is a wrapper.
CUresult image_read_bytes(const void *code, size_t size, const struct selection *selection,
                          struct image *image);
// Does the same with what a file holds, of which no more comes into memory than the image has.
// Returns the errors of image_file, too.
CUresult image_read_file(const char *path, const struct selection *selection, struct image *image);
// Makes an image of an input of a link, which is not looked into.
CUresult image_of_input(const void *data, uint64_t size, struct image *image);
// Reads a file as it is, and puts a zero behind it that *size does not count. The caller frees
// *bytes. CUDA_ERROR_FILE_NOT_FOUND when it cannot be read, CUDA_ERROR_OUT_OF_MEMORY.
CUresult image_file(const char *path, char **bytes, size_t *size);
// Writes what the image holds for a person to read, as in "PTX for sm_52, machine code for sm_75".
// It is cut where it does not fit into `room` bytes, with the zero at its end.
void image_describe(const struct image *image, char *text, size_t room);
// Frees the bytes of an image.
void image_free(struct image *image);

#endif
