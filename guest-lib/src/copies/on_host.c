#include "copies/on_host.h"

#include <string.h>

#include "copies/download.h"
#include "memory/host_memory.h"
#include "streams/pending.h"
#include "streams/stream.h"

static char *row_at(const struct box_end *end, uint64_t y, uint64_t z) {
  return (char *)(uintptr_t)box_address(end, 0, y, z);
}

// An end as the library itself reads and writes it.
static struct box_end viewed(const struct box_end *end) {
  struct box_end seen = *end;
  seen.address = (uint64_t)(uintptr_t)host_view(box_pointer(end));
  return seen;
}

void box_on_host(const struct box_end *into, const struct box_end *out_of, const struct box *box) {
  const struct box_end to = viewed(into), from = viewed(out_of);
  for (uint64_t z = 0; z < box->depth; z++)
    for (uint64_t y = 0; y < box->height; y++)
      memmove(row_at(&to, y, z), row_at(&from, y, z), box->width);
}

CUresult copy_on_host(const struct copy *copy) {
  CUresult result = pending_seen && pending_any() ? stream_synchronize(copy->session, copy->stream)
                                                  : CUDA_SUCCESS;
  if (!result) result = download_wait_for_all(copy->session);
  if (!result) box_on_host(&copy->to, &copy->from, &copy->box);
  return result;
}
