#include "boxes.h"

#include <string.h>

#include "abi_array.h"
#include "check.h"

#define ARRAYS 64

struct array {
  uint64_t handle, row, rows, slices, mipmapped;
  struct wire_ArrayCreate of;
  uint8_t *bytes;
};

static struct array arrays[ARRAYS];  // by index of their handles
static unsigned live;

static struct array *find(uint64_t handle) {
  CHECK(wire_handle_kind(handle) == WIRE_KIND_ARRAY && wire_handle_index(handle) < ARRAYS);
  struct array *array = &arrays[wire_handle_index(handle)];
  CHECK(array->handle == handle);
  return array;
}

static struct array *mint(uint64_t handle) {
  CHECK(wire_handle_kind(handle) == WIRE_KIND_ARRAY && wire_handle_index(handle) < ARRAYS);
  struct array *array = &arrays[wire_handle_index(handle)];
  CHECK(!array->handle);
  memset(array, 0, sizeof *array);
  array->handle = handle;
  return array;
}

unsigned boxes_arrays(void) { return live; }
uint8_t *boxes_array(uint64_t handle) { return find(handle)->bytes; }

static uint64_t at_level(uint64_t extent, unsigned level) {
  return extent >> level ? extent >> level : 1;
}

static void create(uint64_t handle, const struct wire_ArrayCreate *of, unsigned level,
                   uint64_t mipmapped) {
  struct array *array = mint(handle);
  array->of = *of;
  array->mipmapped = mipmapped;
  array->row =
      at_level(of->width, level) * abi_element_bytes((CUarray_format)of->format, of->channels);
  array->rows = at_level(of->height, level);
  array->slices = at_level(of->depth, level);
  if (mipmapped || !of->levels) array->bytes = calloc(array->row * array->rows, array->slices);
}

static void destroy(uint64_t handle) {
  CHECK(!find(handle)->mipmapped);
  for (unsigned i = 0; i < ARRAYS; i++) {
    if (arrays[i].handle != handle && arrays[i].mipmapped != handle) continue;
    free(arrays[i].bytes);
    memset(&arrays[i], 0, sizeof arrays[i]);
  }
}

struct place {
  uint64_t array, x, y, z;
};

static uint8_t *row_at(struct server *server, struct place place, uint64_t y, uint64_t z,
                       uint64_t width) {
  if (!place.array) return server_reach(server, place.x + (z * place.z + y) * place.y, width);
  struct array *array = find(place.array);
  CHECK(array->bytes && place.x + width <= array->row && place.y + y < array->rows &&
        place.z + z < array->slices);
  return array->bytes + ((place.z + z) * array->rows + place.y + y) * array->row + place.x;
}

static void upload(struct server *server, const struct wire_BoxUpload *q) {
  CHECK(q->length == q->width * q->height * q->depth && q->length);
  CHECK(q->header.size == sizeof *q + wire_round_up((uint32_t)q->length));
  const uint8_t *from = (const uint8_t *)(q + 1);
  struct place to = {q->array, q->x, q->y, q->z};
  for (uint64_t z = 0; z < q->depth; z++)
    for (uint64_t y = 0; y < q->height; y++, from += q->width)
      memcpy(row_at(server, to, y, z, q->width), from, q->width);
}

static void copy(struct server *server, const struct wire_BoxCopy *q) {
  struct place to = {q->to_array, q->to_x, q->to_y, q->to_z};
  struct place from = {q->from_array, q->from_x, q->from_y, q->from_z};
  for (uint64_t z = 0; z < q->depth; z++)
    for (uint64_t y = 0; y < q->height; y++)
      memmove(row_at(server, to, y, z, q->width), row_at(server, from, y, z, q->width), q->width);
}

static void download(struct server *server, const struct wire_BoxDownload *q) {
  struct place from = {q->array, q->x, q->y, q->z};
  uint64_t length = q->width * q->height * q->depth, done = 0;
  uint8_t *bytes = malloc(length), *at = bytes;
  for (uint64_t z = 0; z < q->depth; z++)
    for (uint64_t y = 0; y < q->height; y++, at += q->width)
      memcpy(at, row_at(server, from, y, z, q->width), q->width);
  // In parts that end anywhere.
  while (done < length) {
    uint64_t part = length - done < 100003 ? length - done : 100003;
    server_data(server, q->request.request, done, bytes + done, part);
    done += part;
  }
  free(bytes);
  server_reply(server, q->request.request, 0, 0);
}

_Bool boxes_carry_out(struct server *server, const struct wire_header *h) {
  switch (h->op) {
    case WIRE_ArrayCreate: {
      const struct wire_ArrayCreate *q = (const void *)h;
      create(q->array, q, 0, 0);
      live++;
      return 0;
    }
    case WIRE_ArrayLevel: {
      const struct wire_ArrayLevel *q = (const void *)h;
      const struct array *whole = find(q->mipmapped);
      CHECK(q->level < whole->of.levels);
      create(q->array, &whole->of, q->level, q->mipmapped);
      return 0;
    }
    case WIRE_ArrayDestroy:
      destroy(((const struct wire_ArrayDestroy *)h)->array);
      live--;
      return 0;
    case WIRE_BoxUpload:
      upload(server, (const void *)h);
      return 0;
    case WIRE_BoxCopy:
      copy(server, (const void *)h);
      return 0;
    case WIRE_Copy2D: {
      const struct wire_Copy2D *q = (const void *)h;
      copy(server, &(struct wire_BoxCopy){.to_x = q->destination,
                                          .to_y = q->destination_pitch,
                                          .from_x = q->source,
                                          .from_y = q->source_pitch,
                                          .width = q->width,
                                          .height = q->height,
                                          .depth = 1});
      return 0;
    }
    case WIRE_BoxDownload:
      download(server, (const void *)h);
      return 1;
    default:
      return 0;
  }
}
