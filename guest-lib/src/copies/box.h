// Copies of boxes. A box is a run of bytes, a plane or a volume, and at either end it lies in the
// program's memory, in device memory or in an array. Every copy that is not of bytes in a row is
// made of these functions.
//
// Positions, sizes and pitches in x are in bytes; those in y and z are in rows and slices. Device
// addresses and streams are as on the wire. All is about the session that the thread is in
// (session.h). Where nothing else is said, a CUresult is the first error of a check or of sending,
// and what guest_lost (wire/enter.h) says once the connection is gone.
#ifndef OUTBOARD_BOX_H
#define OUTBOARD_BOX_H

#include <stdint.h>

#include "copies/copy.h"
#include "cuda_driver.h"

// Where an end of a copy lies. BOX_EITHER stands for memory whose address has to tell whether it is
// the host's or the device's; box_locate finds that out and replaces it.
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

// Checks a copy before it is made: finds out for each end in memory whether it is the host's or the
// device's, and that a range of the device's is allocated and may be used (memory_check). Changes
// the ends accordingly. The box must not be empty. CUDA_ERROR_INVALID_VALUE when the copy cannot
// be.
CUresult box_locate(struct box_end *to, struct box_end *from, const struct box *box);
// Makes a copy whose ends box_locate has found. It becomes a node where `stream` is captured.
// Otherwise a copy to the device is posted; one from the device is waited for or deferred, as
// `landing` says; one between places of the host is made here, when nothing is on its way there any
// more.
CUresult box_move(const struct box_end *to, const struct box_end *from, const struct box *box,
                  uint64_t stream, enum landing landing);
// Says how a copy to a located end is to land: deferred where the call is asynchronous and the
// destination is pinned as a whole (copy_landing).
enum landing box_landing(const struct box_end *to, const struct box *box, _Bool async);

// Posts a copy from the program's memory to the device, both located, without asking whether the
// stream is captured or whether the memory may still change (late_upload.h). The source has been
// read when this returns.
CUresult box_upload(const struct box_end *to, const struct box_end *from, const struct box *box,
                    uint64_t stream);
// Copies between two located places of the program's memory at once. The caller has seen to it that
// nothing is on its way to either (copy_wait_for_host).
void box_on_host(const struct box_end *to, const struct box_end *from, const struct box *box);
// Returns how many bytes a box in memory covers from its first byte to behind its last, gaps
// between rows included; 0 when it would pass the end of all addresses. The box is not empty.
uint64_t box_span(const struct box_end *end, const struct box *box);

// A whole copy, as an entry point makes it: locates the ends, also those on another device
// (cross_device.h), records or sends it, and, unless it is `async`, waits as CUDA does. An empty
// box is a node in a capture and nothing otherwise.
CUresult box_copy(struct box_end *to, struct box_end *from, const struct box *box, uint64_t stream,
                  _Bool async);

#endif
