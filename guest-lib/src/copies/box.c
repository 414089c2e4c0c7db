#include "copies/box.h"

#include "arrays/array.h"

uint64_t box_span(const struct box_end *end, const struct box *box) {
  unsigned __int128 bytes = box->width;
  if (!box_is_row(box))
    bytes += (unsigned __int128)end->pitch * end->rows * (box->depth - 1) +
             (unsigned __int128)end->pitch * (box->height - 1);
  return bytes > UINT64_MAX - end->address ? 0 : (uint64_t)bytes;
}

_Bool box_rows_join(const struct box_end *end, const struct box *box) {
  return box->height == 1 || end->pitch == box->width;
}

_Bool box_slices_join(const struct box_end *end, const struct box *box) {
  return box_rows_join(end, box) &&
         (box->depth == 1 || end->pitch * end->rows == box->width * box->height);
}

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
    at.address = box_address(end, piece->x, piece->y, piece->z);
  }
  return at;
}

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
