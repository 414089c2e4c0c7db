// Copies of boxes, with memory of any kind or arrays at either end: what every copy that is not of
// bytes in a row is made of.
#ifndef OUTBOARD_BOX_H
#define OUTBOARD_BOX_H

#include <stdint.h>

#include "copies/copy.h"
#include "cuda_driver.h"

// BOX_EITHER: what the address says. It is decided by box_locate.
enum box_place { BOX_HOST, BOX_DEVICE, BOX_EITHER, BOX_ARRAY };

// Where a box begins. Memory has rows `pitch` bytes apart, `rows` of them in a slice.
struct box_end {
  enum box_place place;
  uint64_t array;  // the handle on the wire
  uint64_t x, y, z;
  uint64_t address, pitch, rows;
};

struct box {
  uint64_t width, height, depth;  // the width in bytes
};

// A part of a box, from the one at x, y, z on: as many whole slices, or rows, as `most` bytes hold,
// or a part of a row. `rows`, `slices`: whether they may be taken together.
struct box_piece {
  uint64_t x, y, z;
  struct box box;
};
void box_piece_shape(struct box_piece *piece, const struct box *whole, uint64_t most, _Bool rows,
                     _Bool slices);
void box_piece_next(struct box_piece *piece, const struct box *whole);
// Where a piece begins at an end.
struct box_end box_end_at(const struct box_end *end, const struct box_piece *piece);

// The end at byte x, row y, slice z of an array. CUDA_ERROR_INVALID_VALUE when the box leaves it or
// cuts elements.
CUresult box_in_array(CUarray handle, uint64_t x, uint64_t y, uint64_t z, const struct box *box,
                      struct box_end *end);

// Checks a copy and finds out where its memory is. The box is not empty.
CUresult box_locate(struct box_end *to, struct box_end *from, const struct box *box);
// Carries out what was located.
CUresult box_move(const struct box_end *to, const struct box_end *from, const struct box *box,
                  uint64_t stream, enum landing landing);
// How what was located lands.
enum landing box_landing(const struct box_end *to, const struct box *box, _Bool async);

// From located memory of the program to the device, at once.
CUresult box_upload(const struct box_end *to, const struct box_end *from, const struct box *box,
                    uint64_t stream);
// Between two places of the program's memory, when nothing is on its way there any more.
void box_on_host(const struct box_end *to, const struct box_end *from, const struct box *box);
// In memory, from its first byte to behind its last; 0 when that is no range of addresses.
uint64_t box_span(const struct box_end *end, const struct box *box);

// All of it; nothing is done for an empty box.
CUresult box_copy(struct box_end *to, struct box_end *from, const struct box *box, uint64_t stream,
                  _Bool async);

#endif
