#include "copies/box.h"

#include <string.h>

#include "arrays/array.h"
#include "copies/cross_device.h"
#include "copies/late_upload.h"
#include "guest_calls.h"
#include "memory/host_memory.h"
#include "memory/memory_range.h"
#include "pages/merged.h"
#include "session/session.h"
#include "streams/recorder.h"
#include "streams/stream.h"
#include "wire/answer.h"
#include "wire/batch.h"
#include "wire/enter.h"
#include "wire/order.h"

// Runs of host memory from here on go to the socket from where they are; shorter rows are packed in
// the batch, so much at a time.
#define RUN_MIN (64u << 10)
#define PACK_MAX (128u << 10)
_Static_assert(PACK_MAX < BATCH_BYTES && PACK_MAX >= RUN_MIN, "what is packed fits into the batch");

// ---- ends --------------------------------------------------------------------------------------

CUresult box_in_array(CUarray handle, uint64_t x, uint64_t y, uint64_t z, const struct box *box,
                      struct box_end *end) {
  const struct array *array = array_find(handle);
  if (!array || x % array->element || box->width % array->element) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR *of = &array->descriptor;
  const uint64_t extents[3] = {of->Width * array->element, of->Height ? of->Height : 1,
                               of->Depth ? of->Depth : 1};
  const uint64_t begins[3] = {x, y, z}, sizes[3] = {box->width, box->height, box->depth};
  for (int i = 0; i < 3; i++)
    if (begins[i] > extents[i] || sizes[i] > extents[i] - begins[i])
      return CUDA_ERROR_INVALID_VALUE;
  *end = (struct box_end){.place = BOX_ARRAY, .array = array->wire, .x = x, .y = y, .z = z};
  return CUDA_SUCCESS;
}

uint64_t box_span(const struct box_end *end, const struct box *box) {
  unsigned __int128 bytes = (unsigned __int128)end->pitch * end->rows * (box->depth - 1) +
                            (unsigned __int128)end->pitch * (box->height - 1) + box->width;
  return bytes > UINT64_MAX - end->address ? 0 : (uint64_t)bytes;
}

static CUresult locate(struct box_end *end, const struct box *box) {
  if (end->place == BOX_ARRAY) return CUDA_SUCCESS;
  unsigned __int128 slice = (unsigned __int128)end->pitch * end->rows;
  if (box->depth > 1 && slice > UINT64_MAX) return CUDA_ERROR_INVALID_VALUE;
  uint64_t bytes = box_span(end, box);
  const void *start = host_on_device((const void *)(uintptr_t)end->address);
  end->address = (uint64_t)(uintptr_t)start;
  if (!start || !bytes) return CUDA_ERROR_INVALID_VALUE;
  if (memory_is_device(start)) {
    end->place = BOX_DEVICE;
    return memory_check(end->address, bytes);
  }
  // The device reaches pinned memory, too.
  if (end->place == BOX_DEVICE && !host_is_pinned(start, bytes)) return CUDA_ERROR_INVALID_VALUE;
  end->place = BOX_HOST;
  return CUDA_SUCCESS;
}

CUresult box_locate(struct box_end *to, struct box_end *from, const struct box *box) {
  uint64_t bytes;
  if (__builtin_mul_overflow(box->width, box->height, &bytes) ||
      __builtin_mul_overflow(bytes, box->depth, &bytes))
    return CUDA_ERROR_INVALID_VALUE;
  const struct box_end *ends[2] = {to, from};
  for (int i = 0; i < 2; i++)
    if (box->height > 1 && ends[i]->place != BOX_ARRAY && ends[i]->pitch < box->width)
      return CUDA_ERROR_INVALID_VALUE;
  CUresult result = locate(to, box);
  return result ? result : locate(from, box);
}

enum landing box_landing(const struct box_end *to, const struct box *box, _Bool async) {
  if (to->place != BOX_HOST) return LANDING_WAITED_FOR;
  return copy_landing((const void *)(uintptr_t)to->address, box_span(to, box), async);
}

// Whether rows, or whole slices, lie one behind the other in memory.
static _Bool rows_join(const struct box_end *end, const struct box *box) {
  return box->height == 1 || end->pitch == box->width;
}
static _Bool slices_join(const struct box_end *end, const struct box *box) {
  return rows_join(end, box) &&
         (box->depth == 1 || end->pitch * end->rows == box->width * box->height);
}
static _Bool is_line(const struct box_end *end, const struct box *box) {
  return end->place != BOX_ARRAY && slices_join(end, box);
}

static char *host_at(const struct box_end *end, uint64_t x, uint64_t y, uint64_t z) {
  return (char *)(uintptr_t)end->address + z * end->pitch * end->rows + y * end->pitch + x;
}

// ---- to the device -----------------------------------------------------------------------------

void box_piece_shape(struct box_piece *piece, const struct box *whole, uint64_t most, _Bool rows,
                     _Bool slices) {
  uint64_t slice = whole->width * whole->height;
  piece->box = (struct box){whole->width, 1, 1};
  if (piece->x == 0 && piece->y == 0 && slices && slice <= most) {
    piece->box.height = whole->height;
    piece->box.depth = most / slice;
    if (piece->box.depth > whole->depth - piece->z) piece->box.depth = whole->depth - piece->z;
  } else if (piece->x == 0 && whole->width <= most) {
    piece->box.height = rows ? most / whole->width : 1;
    if (piece->box.height > whole->height - piece->y) piece->box.height = whole->height - piece->y;
  } else {
    piece->box.width = whole->width - piece->x < most ? whole->width - piece->x : most;
  }
}

void box_piece_next(struct box_piece *piece, const struct box *whole) {
  piece->x += piece->box.width;
  if (piece->x < whole->width) return;
  piece->x = 0;
  piece->y += piece->box.height;
  if (piece->y < whole->height) return;
  piece->y = 0;
  piece->z += piece->box.depth;
}

struct box_end box_end_at(const struct box_end *end, const struct box_piece *piece) {
  struct box_end at = *end;
  if (end->place == BOX_ARRAY) {
    at.x += piece->x;
    at.y += piece->y;
    at.z += piece->z;
  } else {
    at.address = (uint64_t)(uintptr_t)host_at(end, piece->x, piece->y, piece->z);
  }
  return at;
}

static void fill_upload(struct wire_BoxUpload *frame, const struct box_end *to,
                        const struct box_piece *piece, uint64_t stream) {
  frame->array = to->array;
  if (to->place == BOX_ARRAY) {
    frame->x = to->x + piece->x;
    frame->y = to->y + piece->y;
    frame->z = to->z + piece->z;
  } else {
    frame->x = (uint64_t)(uintptr_t)host_at(to, piece->x, piece->y, piece->z);
    frame->y = to->pitch;
    frame->z = to->rows;
  }
  frame->width = piece->box.width;
  frame->height = piece->box.height;
  frame->depth = piece->box.depth;
  frame->stream = stream;
  frame->length = piece->box.width * piece->box.height * piece->box.depth;
}

static CUresult send_run(const struct box_end *to, const void *run, const struct box_piece *piece,
                         uint64_t stream) {
  uint64_t length = piece->box.width * piece->box.height * piece->box.depth;
  struct wire_BoxUpload *frame = batch_begin_bulk(WIRE_BoxUpload, sizeof *frame, run, length);
  if (!frame) return guest_lost();
  fill_upload(frame, to, piece, stream);
  return batch_end_bulk(stream, run, length);
}

static CUresult send_packed(const struct box_end *to, const struct box_end *from,
                            const struct box_piece *piece, uint64_t stream) {
  uint64_t length = piece->box.width * piece->box.height * piece->box.depth;
  uint32_t padded = wire_round_up((uint32_t)length);
  struct wire_BoxUpload *frame = batch_begin(WIRE_BoxUpload, sizeof *frame + padded);
  if (!frame) return guest_lost();
  fill_upload(frame, to, piece, stream);
  char *at = (char *)(frame + 1);
  for (uint64_t z = 0; z < piece->box.depth; z++)
    for (uint64_t y = 0; y < piece->box.height; y++, at += piece->box.width)
      memcpy(at, host_at(from, piece->x, piece->y + y, piece->z + z), piece->box.width);
  memset(at, 0, padded - length);
  return batch_end(stream);
}

static CUresult upload(const struct box_end *to, const struct box_end *from, const struct box *box,
                       uint64_t stream) {
  _Bool rows = rows_join(from, box), slices = slices_join(from, box);
  uint64_t run = box->width;
  if (rows) run *= box->height;
  if (slices) run *= box->depth;
  _Bool packed = run < RUN_MIN && !slices;
  struct box_piece piece = {0};
  while (piece.z < box->depth) {
    box_piece_shape(&piece, box, packed ? PACK_MAX : WIRE_BULK_MAX, packed || rows,
                    packed || slices);
    CUresult result = packed
                          ? send_packed(to, from, &piece, stream)
                          : send_run(to, host_at(from, piece.x, piece.y, piece.z), &piece, stream);
    if (result) return result;
    box_piece_next(&piece, box);
  }
  return CUDA_SUCCESS;
}

// ---- from the device, and on it ----------------------------------------------------------------

static CUresult download(const struct box_end *to, const struct box_end *from,
                         const struct box *box, uint64_t stream, enum landing landing) {
  struct answer own, *answer = &own;
  if (landing == LANDING_DEFERRED) {
    answer = answer_take_deferred();
    if (!answer) return CUDA_ERROR_OUT_OF_MEMORY;
    answer->deferred = 1;
  } else {
    answer_init(answer);
  }
  answer_into_rows(answer, (void *)(uintptr_t)to->address, box->width, box->height, box->depth,
                   to->pitch, to->pitch * to->rows);
  struct wire_BoxDownload *frame = batch_ask(WIRE_BoxDownload, sizeof *frame, answer);
  if (!frame) {
    if (landing == LANDING_DEFERRED) answer_give_back(answer);
    return guest_lost();
  }
  _Bool array = from->place == BOX_ARRAY;
  frame->array = from->array;
  frame->x = array ? from->x : from->address;
  frame->y = array ? from->y : from->pitch;
  frame->z = array ? from->z : from->rows;
  frame->width = box->width;
  frame->height = box->height;
  frame->depth = box->depth;
  frame->stream = stream;
  if (landing == LANDING_DEFERRED) return batch_defer(stream);
  CUresult result = batch_wait(answer, sizeof(struct wire_BoxDownload_reply));
  answer_free(answer);
  if (!result) stream_operation_settled(stream, answer->sequence);
  pages_have_waited();
  return result;
}

static CUresult on_device(const struct box_end *to, const struct box_end *from,
                          const struct box *box, uint64_t stream) {
  _Bool into = to->place == BOX_ARRAY, of = from->place == BOX_ARRAY;
  if (!into && !of && box->depth == 1)
    return put_Copy2D(to->address, to->pitch, from->address, from->pitch, box->width, box->height,
                      stream);
  return put_BoxCopy(to->array, into ? to->x : to->address, into ? to->y : to->pitch,
                     into ? to->z : to->rows, from->array, of ? from->x : from->address,
                     of ? from->y : from->pitch, of ? from->z : from->rows, box->width, box->height,
                     box->depth, stream);
}

// ---- all of it ---------------------------------------------------------------------------------

// What the library reads and writes in the program's memory.
static struct box_end viewed(const struct box_end *end) {
  struct box_end seen = *end;
  if (end->place == BOX_HOST)
    seen.address = (uint64_t)(uintptr_t)host_view((const void *)(uintptr_t)end->address);
  return seen;
}

void box_on_host(const struct box_end *into, const struct box_end *out_of, const struct box *box) {
  const struct box_end to = viewed(into), from = viewed(out_of);
  for (uint64_t z = 0; z < box->depth; z++)
    for (uint64_t y = 0; y < box->height; y++)
      memmove(host_at(&to, 0, y, z), host_at(&from, 0, y, z), box->width);
}

CUresult box_upload(const struct box_end *to, const struct box_end *out_of, const struct box *box,
                    uint64_t stream) {
  const struct box_end from = viewed(out_of);
  if (is_line(to, box) && is_line(&from, box))
    return copy_upload(to->address, host_at(out_of, 0, 0, 0), box->width * box->height * box->depth,
                       stream);
  return upload(to, &from, box, stream);
}

static _Bool is_late(const struct box_end *to, const struct box_end *from, const struct box *box) {
  return from->place == BOX_HOST && to->place != BOX_HOST &&
         late_is_due(host_at(from, 0, 0, 0), box_span(from, box));
}

CUresult box_move(const struct box_end *into, const struct box_end *out_of, const struct box *box,
                  uint64_t stream, enum landing landing) {
  if (capture_active()) {
    CUresult captured = recorder->box(stream, into, out_of, box);
    if (captured != CAPTURE_NONE) return captured;
  }
  const struct box_end viewed_to = viewed(into), viewed_from = viewed(out_of);
  const struct box_end *to = &viewed_to, *from = &viewed_from;
  uint64_t bytes = box->width * box->height * box->depth;
  _Bool line = is_line(to, box) && is_line(from, box);
  if (to->place == BOX_HOST && from->place == BOX_HOST) {
    CUresult result = copy_wait_for_host(stream);
    if (!result) box_on_host(into, out_of, box);
    return result;
  }
  if (from->place == BOX_HOST)
    return is_late(into, out_of, box) ? late_upload(into, out_of, box, stream)
                                      : box_upload(into, out_of, box, stream);
  if (to->place == BOX_HOST)
    return line ? copy_download(host_at(into, 0, 0, 0), from->address, bytes, stream, landing)
                : download(to, from, box, stream, landing);
  return line ? put_cuMemcpyDtoDAsync_v2(to->address, from->address, bytes, stream)
              : on_device(to, from, box, stream);
}

CUresult box_copy(struct box_end *to, struct box_end *from, const struct box *box, uint64_t stream,
                  _Bool async) {
  if (!box->width || !box->height || !box->depth) {
    // In a graph it is a node all the same.
    CUresult captured = capture_active() ? recorder->box(stream, to, from, box) : CAPTURE_NONE;
    return captured == CAPTURE_NONE ? CUDA_SUCCESS : captured;
  }
  CUresult result;
  if (sessions_many() && cross_device_copy(to, from, box, stream, async, &result)) return result;
  result = box_locate(to, from, box);
  // Who copies while waiting may change the source afterwards.
  const _Bool waits = !result && !async && is_late(to, from, box);
  if (!result) result = box_move(to, from, box, stream, box_landing(to, box, async));
  if (!result && waits) return stream_synchronize(stream);
  return result || async ? result : copy_finish(stream);
}
