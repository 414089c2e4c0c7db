// Boxes, and where they lie. A box is what a copy moves: a run of bytes, a plane or a volume. At
// either end it lies in the program's memory, in device memory or in an array. Nothing here looks
// at memory or sends anything, but for box_in_array, which looks the array up.
//
// Positions, sizes and pitches in x are in bytes; those in y and z are in rows and slices. Device
// addresses are as on the wire.
#ifndef OUTBOARD_BOX_H
#define OUTBOARD_BOX_H

#include <stdint.h>

#include "cuda_driver.h"

// Where an end of a copy lies. BOX_EITHER stands for memory whose address has to tell whether it
// is the host's or the device's; copy_resolve (resolve.h) finds that out and replaces it.
enum box_place { BOX_HOST, BOX_DEVICE, BOX_EITHER, BOX_ARRAY };

// Where a box begins. Memory (`address`) has rows `pitch` bytes apart, and slices of `rows` rows.
// An array has its handle on the wire (`array`) and a position (`x`, `y`, `z`) in it.
struct box_end {
  enum box_place place;
  uint64_t array;
  uint64_t x, y, z;
  uint64_t address, pitch, rows;
};

struct box {
  uint64_t width, height, depth;  // the width in bytes
};

// A box of one row, and the end of it that is memory at an address.
static inline struct box box_row(uint64_t bytes) { return (struct box){bytes, 1, 1}; }
static inline struct box_end box_row_at(enum box_place place, uint64_t address, uint64_t bytes) {
  return (struct box_end){.place = place, .address = address, .pitch = bytes, .rows = 1};
}

static inline _Bool box_is_empty(const struct box *box) {
  return !box->width || !box->height || !box->depth;
}
static inline _Bool box_is_row(const struct box *box) {
  return box->height == 1 && box->depth == 1;
}
// Returns how many bytes a box has, without gaps. The caller knows that they fit into the number.
static inline uint64_t box_bytes(const struct box *box) {
  return box->width * box->height * box->depth;
}

// Returns how many bytes a box in memory covers from its first byte to behind its last, gaps
// between rows included; 0 when it would pass the end of all addresses. The box is not empty.
uint64_t box_span(const struct box_end *end, const struct box *box);
// Whether rows, or whole slices, lie one behind the other in memory; and whether all of the box is
// one run of bytes at both ends.
_Bool box_rows_join(const struct box_end *end, const struct box *box);
_Bool box_slices_join(const struct box_end *end, const struct box *box);
static inline _Bool box_is_line(const struct box_end *to, const struct box_end *from,
                                const struct box *box) {
  return to->place != BOX_ARRAY && from->place != BOX_ARRAY &&
         (box_is_row(box) || (box_slices_join(to, box) && box_slices_join(from, box)));
}
// Returns an end in memory as this process sees it.
static inline void *box_pointer(const struct box_end *end) {
  return (void *)(uintptr_t)end->address;
}
// Returns the address of a byte of a box in memory.
static inline uint64_t box_address(const struct box_end *end, uint64_t x, uint64_t y, uint64_t z) {
  return end->address + (z * end->rows + y) * end->pitch + x;
}

// A part of a box: it begins at (x, y, z) of the box, and has a size of its own.
struct box_piece {
  uint64_t x, y, z;
  struct box box;
};
// Sets the size of a piece whose position is set: it gets as many whole slices, or else whole rows,
// as `most` bytes hold, or else a part of one row. `rows` and `slices` say whether several rows,
// and several slices, may be in one piece. The box is not empty.
void box_piece_shape(struct box_piece *piece, const struct box *whole, uint64_t most, _Bool rows,
                     _Bool slices);
// Moves the position behind the piece. The box is through once piece->z has reached its depth.
void box_piece_next(struct box_piece *piece, const struct box *whole);
// Returns where the piece begins at an end of the copy of the whole box.
struct box_end box_end_at(const struct box_end *end, const struct box_piece *piece);

// Sets *end to byte x, row y, slice z of an array. CUDA_ERROR_INVALID_VALUE when the handle is none
// of an array, or when the box leaves the array or cuts through elements.
CUresult box_in_array(CUarray handle, uint64_t x, uint64_t y, uint64_t z, const struct box *box,
                      struct box_end *end);

#endif
