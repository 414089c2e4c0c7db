#include "copies/on_device.h"

#include "guest_calls.h"

CUresult copy_on_device(const struct copy *copy) {
  const struct box_end *to = &copy->to, *from = &copy->from;
  const struct box *box = &copy->box;
  if (copy->line)
    return put_cuMemcpyDtoDAsync_v2(copy->session, to->address, from->address, copy->bytes,
                                    copy->stream);
  const _Bool into = to->place == BOX_ARRAY, of = from->place == BOX_ARRAY;
  if (!into && !of && box->depth == 1)
    return put_Copy2D(copy->session, to->address, to->pitch, from->address, from->pitch, box->width,
                      box->height, copy->stream);
  return put_BoxCopy(copy->session, to->array, into ? to->x : to->address, into ? to->y : to->pitch,
                     into ? to->z : to->rows, from->array, of ? from->x : from->address,
                     of ? from->y : from->pitch, of ? from->z : from->rows, box->width, box->height,
                     box->depth, copy->stream);
}
