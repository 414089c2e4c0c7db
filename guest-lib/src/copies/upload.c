#include "copies/upload.h"

#include <string.h>

#include "guest_calls.h"
#include "memory/host_memory.h"
#include "streams/room.h"
#include "wire/batch.h"
#include "wire/enter.h"
#include "wire/region.h"

// ---- bytes in a row ----------------------------------------------------------------------------

static CUresult upload_run(struct session *session, uint64_t destination, const void *source,
                           uint64_t bytes, uint64_t stream) {
  const char *at = host_use(source);
  CUresult result = CUDA_SUCCESS;
  if (region_wants(session, bytes))
    result = region_upload(session, &destination, &at, &bytes, stream);
  while (bytes && !result) {
    uint64_t part = bytes < WIRE_BULK_MAX ? bytes : WIRE_BULK_MAX;
    result = put_Upload(session, destination, stream, part, at);
    destination += part;
    at += part;
    bytes -= part;
  }
  host_used();
  return result;
}

// Where the server's streams take only so many operations, or functions are pending, what becomes
// several commands is sent in parts: for each its stream and the server have to have room. Through
// memory that both share, a part goes in slots of a quarter of it.
static CUresult upload_parts(struct session *session, uint64_t destination, const char *source,
                             uint64_t bytes, uint64_t stream) {
  const unsigned slots = session->region_state == REGION_NONE ? 1 : 4;
  CUresult result = CUDA_SUCCESS;
  for (uint64_t done = 0, part; done < bytes && !result; done += part) {
    part = bytes - done < WIRE_BULK_MAX ? bytes - done : WIRE_BULK_MAX;
    stream_await_server(session, part);
    result = stream_await_operations(session, stream, slots * STREAM_OPERATIONS_OF_UPLOAD);
    if (!result) result = upload_run(session, destination + done, source + done, part, stream);
  }
  return result;
}

CUresult upload_line(struct session *session, uint64_t destination, const void *source,
                     uint64_t bytes, uint64_t stream) {
  const _Bool waits = session->stream_operations != 0 || atomic_load(&pending_seen);
  return __builtin_expect(waits, 0) ? upload_parts(session, destination, source, bytes, stream)
                                    : upload_run(session, destination, source, bytes, stream);
}

// ---- boxes -------------------------------------------------------------------------------------

// Runs of host memory from here on go to the socket from where they are; shorter rows are packed in
// the batch, so much at a time.
#define BOX_RUN_MIN (64u << 10)
#define BOX_PACK_MAX (128u << 10)
_Static_assert(BOX_PACK_MAX < BATCH_BYTES && BOX_PACK_MAX >= BOX_RUN_MIN,
               "what is packed fits into the batch");

static void fill_frame(struct wire_BoxUpload *frame, const struct copy *copy,
                       const struct box_piece *piece) {
  const struct box_end *to = &copy->to;
  frame->array = to->array;
  if (to->place == BOX_ARRAY) {
    frame->x = to->x + piece->x;
    frame->y = to->y + piece->y;
    frame->z = to->z + piece->z;
  } else {
    frame->x = box_address(to, piece->x, piece->y, piece->z);
    frame->y = to->pitch;
    frame->z = to->rows;
  }
  frame->width = piece->box.width;
  frame->height = piece->box.height;
  frame->depth = piece->box.depth;
  frame->stream = copy->stream;
  frame->length = box_bytes(&piece->box);
}

static const char *row_at(const struct box_end *from, const struct box_piece *piece, uint64_t y,
                          uint64_t z) {
  return (const char *)(uintptr_t)box_address(from, piece->x, piece->y + y, piece->z + z);
}

static CUresult send_run(const struct copy *copy, const void *run, const struct box_piece *piece) {
  uint64_t length = box_bytes(&piece->box);
  struct wire_BoxUpload *frame =
      batch_begin_bulk(copy->session, WIRE_BoxUpload, sizeof *frame, length);
  if (!frame) return guest_lost();
  fill_frame(frame, copy, piece);
  return batch_end_bulk(copy->session, copy->stream, run, length);
}

static CUresult send_packed(const struct copy *copy, const struct box_end *from,
                            const struct box_piece *piece) {
  uint64_t length = box_bytes(&piece->box);
  uint32_t padded = wire_round_up((uint32_t)length);
  struct wire_BoxUpload *frame = batch_begin(copy->session, WIRE_BoxUpload, sizeof *frame + padded);
  if (!frame) return guest_lost();
  fill_frame(frame, copy, piece);
  char *at = (char *)(frame + 1);
  for (uint64_t z = 0; z < piece->box.depth; z++)
    for (uint64_t y = 0; y < piece->box.height; y++, at += piece->box.width)
      memcpy(at, row_at(from, piece, y, z), piece->box.width);
  memset(at, 0, padded - length);
  return batch_end(copy->session, copy->stream);
}

// Apart, so that lines need not make room for it.
static __attribute__((noinline)) CUresult upload_box(const struct copy *copy) {
  const struct box *box = &copy->box;
  struct box_end from = copy->from;
  from.address = (uint64_t)(uintptr_t)host_view(box_pointer(&from));
  _Bool rows = box_rows_join(&from, box), slices = box_slices_join(&from, box);
  uint64_t run = box->width;
  if (rows) run *= box->height;
  if (slices) run *= box->depth;
  _Bool packed = run < BOX_RUN_MIN && !slices;
  struct box_piece piece = {0};
  while (piece.z < box->depth) {
    box_piece_shape(&piece, box, packed ? BOX_PACK_MAX : WIRE_BULK_MAX, packed || rows,
                    packed || slices);
    stream_await_server(copy->session, box_bytes(&piece.box));
    CUresult result =
        stream_await_operations(copy->session, copy->stream, STREAM_OPERATIONS_OF_UPLOAD);
    if (!result)
      result = packed ? send_packed(copy, &from, &piece)
                      : send_run(copy, row_at(&from, &piece, 0, 0), &piece);
    if (result) return result;
    box_piece_next(&piece, box);
  }
  return CUDA_SUCCESS;
}

CUresult copy_upload(const struct copy *copy) {
  return copy->line ? upload_line(copy->session, copy->to.address, box_pointer(&copy->from),
                                  copy->bytes, copy->stream)
                    : upload_box(copy);
}
