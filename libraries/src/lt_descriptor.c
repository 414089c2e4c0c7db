#include "lt_descriptor.h"

#include <stdlib.h>
#include <string.h>

#include "door.h"
#include "lt_served.h"
#include "status.h"

// The first bytes of one tell its kind; the attributes lie behind it, at their places.
struct lt_object {
  uint32_t magic;
  unsigned char rest[LT_OBJECT_MOST - 4];
};

#define MAGIC 0x746c626fu

static void *at(struct lt_object *object, uint32_t place) { return (char *)object + place; }
static const void *in(const struct lt_object *object, uint32_t place) {
  return (const char *)object + place;
}

_Bool lt_is(enum lt_kind kind, const struct lt_object *object) {
  return object && object->magic == MAGIC + kind;
}

int lt_number(const struct lt_object *object, enum lt_place place) {
  int value;
  memcpy(&value, in(object, place), sizeof value);
  return value;
}

uint64_t lt_whole(const struct lt_object *object, enum lt_place place) {
  uint64_t value;
  memcpy(&value, in(object, place), sizeof value);
  return value;
}

_Bool lt_equal(enum lt_kind kind, const struct lt_object *one, const struct lt_object *other) {
  const struct lt_table *table = &lt_tables[kind];
  for (uint32_t i = 0; i < table->count; i++) {
    const struct lt_attribute *attribute = &table->attributes[i];
    if (memcmp(in(one, attribute->place), in(other, attribute->place), attribute->bytes)) return 0;
  }
  return 1;
}

// ---- as words ----------------------------------------------------------------------------------

void lt_add(struct lt_words *words, uint64_t word) {
  words->words[words->count++] = word;
  learnt_add(&words->key, word);
}

uint64_t lt_alignment(uint64_t address) {
  // No function asks for more than this.
  enum { ALIGNMENT_MOST = 256 };
  const uint64_t bits = address | ALIGNMENT_MOST;
  return address ? bits & -bits : 0;
}

void lt_add_address(struct lt_words *words, uint64_t address) {
  const uint64_t aligned = lt_alignment(address);
  words->words[words->count++] = words->asks ? aligned : address;
  learnt_add(&words->key, aligned);
}

int lt_add_object(struct lt_words *words, enum lt_kind kind, const struct lt_object *object) {
  if (!lt_is(kind, object)) return STATUS_INVALID_VALUE;
  const struct lt_table *table = &lt_tables[kind];
  const uint32_t first = words->count++;
  uint64_t told = 0;
  for (uint32_t i = 0; i < table->count; i++) {
    const struct lt_attribute *attribute = &table->attributes[i];
    if (!memcmp(in(object, attribute->place), &attribute->otherwise, attribute->bytes)) continue;
    uint64_t word = 0;
    memcpy(&word, in(object, attribute->place), attribute->bytes);
    told |= (uint64_t)1 << i;
    if (attribute->names_memory)
      lt_add_address(words, word);
    else
      lt_add(words, word);
  }
  words->words[first] = told;
  learnt_add(&words->key, told);
  return STATUS_SUCCESS;
}

// ---- their life --------------------------------------------------------------------------------

// STATUS_ALLOC_FAILED where there is no room for it, as the library has it.
static int start(enum lt_kind kind, struct lt_object *object, size_t size) {
  door_descriptor();
  if (!object) return STATUS_INVALID_VALUE;
  const struct lt_table *table = &lt_tables[kind];
  if (size < table->bytes) return STATUS_ALLOC_FAILED;
  memset(object, 0, table->bytes);
  for (uint32_t i = 0; i < table->count; i++)
    memcpy(at(object, table->attributes[i].place), &table->attributes[i].otherwise,
           table->attributes[i].bytes);
  object->magic = MAGIC + kind;
  return STATUS_SUCCESS;
}

static int create(enum lt_kind kind, struct lt_object **out) {
  if (!out) return STATUS_INVALID_VALUE;
  struct lt_object *object = malloc(lt_tables[kind].bytes);
  if (!object) return STATUS_ALLOC_FAILED;
  *out = object;
  return start(kind, object, lt_tables[kind].bytes);
}

static int destroy(enum lt_kind kind, struct lt_object *object) {
  door_descriptor();
  // As the library has it, none is fine.
  if (!object) return STATUS_SUCCESS;
  if (!lt_is(kind, object)) return STATUS_INVALID_VALUE;
  object->magic = 0;
  free(object);
  return STATUS_SUCCESS;
}

static void set_number(struct lt_object *object, enum lt_place place, int value) {
  memcpy(at(object, place), &value, sizeof value);
}

static void set_types(struct lt_object *object, int compute, int scale) {
  set_number(object, LT_AT_COMPUTE_TYPE, compute);
  set_number(object, LT_AT_SCALE_TYPE, scale);
}

static void set_shape(struct lt_object *object, int type, uint64_t rows, uint64_t columns,
                      int64_t ld) {
  set_number(object, LT_AT_TYPE, type);
  memcpy(at(object, LT_AT_ROWS), &rows, sizeof rows);
  memcpy(at(object, LT_AT_COLUMNS), &columns, sizeof columns);
  memcpy(at(object, LT_AT_LD), &ld, sizeof ld);
}

SERVED int cublasLtMatmulDescInit_internal(struct lt_object *object, size_t size, int compute,
                                           int scale) {
  const int status = start(LT_DESC, object, size);
  if (!status) set_types(object, compute, scale);
  return status;
}
SERVED int cublasLtMatmulDescCreate(struct lt_object **out, int compute, int scale) {
  const int status = create(LT_DESC, out);
  if (!status) set_types(*out, compute, scale);
  return status;
}
SERVED int cublasLtMatmulDescDestroy(struct lt_object *object) { return destroy(LT_DESC, object); }

SERVED int cublasLtMatrixLayoutInit_internal(struct lt_object *object, size_t size, int type,
                                             uint64_t rows, uint64_t columns, int64_t ld) {
  const int status = start(LT_LAYOUT, object, size);
  if (!status) set_shape(object, type, rows, columns, ld);
  return status;
}
SERVED int cublasLtMatrixLayoutCreate(struct lt_object **out, int type, uint64_t rows,
                                      uint64_t columns, int64_t ld) {
  const int status = create(LT_LAYOUT, out);
  if (!status) set_shape(*out, type, rows, columns, ld);
  return status;
}
SERVED int cublasLtMatrixLayoutDestroy(struct lt_object *object) {
  return destroy(LT_LAYOUT, object);
}

SERVED int cublasLtMatrixTransformDescInit_internal(struct lt_object *object, size_t size,
                                                    int scale) {
  const int status = start(LT_TRANSFORM_DESC, object, size);
  if (!status) set_number(object, LT_AT_TRANSFORM_SCALE_TYPE, scale);
  return status;
}
SERVED int cublasLtMatrixTransformDescCreate(struct lt_object **out, int scale) {
  const int status = create(LT_TRANSFORM_DESC, out);
  if (!status) set_number(*out, LT_AT_TRANSFORM_SCALE_TYPE, scale);
  return status;
}
SERVED int cublasLtMatrixTransformDescDestroy(struct lt_object *object) {
  return destroy(LT_TRANSFORM_DESC, object);
}

SERVED int cublasLtMatmulPreferenceInit_internal(struct lt_object *object, size_t size) {
  return start(LT_PREFERENCE, object, size);
}
SERVED int cublasLtMatmulPreferenceCreate(struct lt_object **out) {
  return create(LT_PREFERENCE, out);
}
SERVED int cublasLtMatmulPreferenceDestroy(struct lt_object *object) {
  return destroy(LT_PREFERENCE, object);
}

// ---- their attributes --------------------------------------------------------------------------

static const struct lt_attribute *find(enum lt_kind kind, int id) {
  const struct lt_table *table = &lt_tables[kind];
  for (uint32_t i = 0; i < table->count; i++)
    if (table->attributes[i].id == id) return &table->attributes[i];
  return NULL;
}

static int set(enum lt_kind kind, struct lt_object *object, int id, const void *value,
               size_t size) {
  door_descriptor();
  const struct lt_attribute *attribute = find(kind, id);
  if (!lt_is(kind, object) || !attribute || !value || size != attribute->bytes)
    return STATUS_INVALID_VALUE;
  memcpy(at(object, attribute->place), value, size);
  return STATUS_SUCCESS;
}

static int get(enum lt_kind kind, const struct lt_object *object, int id, void *value, size_t size,
               size_t *written) {
  door_descriptor();
  const struct lt_attribute *attribute = find(kind, id);
  if (!lt_is(kind, object) || !attribute) return STATUS_INVALID_VALUE;
  if (size ? !value || size != attribute->bytes : !written) return STATUS_INVALID_VALUE;
  if (size) memcpy(value, in(object, attribute->place), size);
  if (written) *written = attribute->bytes;
  return STATUS_SUCCESS;
}

#define ATTRIBUTES(name, kind)                                                                 \
  SERVED int cublasLt##name##SetAttribute(struct lt_object *object, int id, const void *value, \
                                          size_t size) {                                       \
    return set(kind, object, id, value, size);                                                 \
  }                                                                                            \
  SERVED int cublasLt##name##GetAttribute(const struct lt_object *object, int id, void *value, \
                                          size_t size, size_t *written) {                      \
    return get(kind, object, id, value, size, written);                                        \
  }
ATTRIBUTES(MatmulDesc, LT_DESC)
ATTRIBUTES(MatrixLayout, LT_LAYOUT)
ATTRIBUTES(MatrixTransformDesc, LT_TRANSFORM_DESC)
ATTRIBUTES(MatmulPreference, LT_PREFERENCE)
