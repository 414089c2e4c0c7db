// Texture and surface objects.
#include "arrays/texture.h"

#include <pthread.h>
#include <stdlib.h>

#include "abi_array.h"
#include "arrays/array.h"
#include "guest_calls.h"
#include "memory/memory_range.h"
#include "session/context.h"
#include "wire/answer.h"

struct object {
  struct object *next;
  struct session *session;  // whose server has made it
  uint64_t value;           // its driver's: another session's may have the same
  uint64_t context;
  _Bool surface, has_view;
  CUDA_RESOURCE_DESC resource;
  CUDA_TEXTURE_DESC texture;
  CUDA_RESOURCE_VIEW_DESC view;
};

#define BUCKETS 4096

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object *objects[BUCKETS];  // by value

static struct object **bucket_of(uint64_t value) {
  return &objects[(value * 0x9e3779b97f4a7c15ull) >> 52];
}

// Returns the link to an object, which is NULL when there is no such object. Where two sessions
// have one of that value, the thread's session comes first. The caller holds the lock.
static struct object **find(uint64_t value, _Bool surface) {
  const struct session *session = session_here();
  struct object **link = bucket_of(value), **found = NULL;
  for (; *link; link = &(*link)->next) {
    if ((*link)->value != value || (*link)->surface != surface) continue;
    if ((*link)->session == session) return link;
    found = link;
  }
  return found ? found : link;
}

CUresult resource_read(const CUDA_RESOURCE_DESC *from, struct resource *to) {
  if (from->flags) return CUDA_ERROR_INVALID_VALUE;
  *to = (struct resource){.kind = from->resType};
  switch (from->resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      const struct array *array = array_find(from->res.array.hArray);
      if (!array) return CUDA_ERROR_INVALID_VALUE;
      to->array = array->wire;
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      const struct array *array = array_find_mipmapped(from->res.mipmap.hMipmappedArray);
      if (!array) return CUDA_ERROR_INVALID_VALUE;
      to->array = array->wire;
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR:
      to->address = from->res.linear.devPtr;
      to->format = from->res.linear.format;
      to->channels = from->res.linear.numChannels;
      to->width = from->res.linear.sizeInBytes;
      // Drivers take a description of more memory than there is, as long as it begins in some.
      return to->width ? memory_check(to->address, 1) : CUDA_ERROR_INVALID_VALUE;
    case CU_RESOURCE_TYPE_PITCH2D: {
      to->address = from->res.pitch2D.devPtr;
      to->format = from->res.pitch2D.format;
      to->channels = from->res.pitch2D.numChannels;
      to->width = from->res.pitch2D.width;
      to->height = from->res.pitch2D.height;
      to->pitch = from->res.pitch2D.pitchInBytes;
      // Formats that are not known here are the driver's to refuse.
      uint64_t row = span_1d(to->width, abi_element_bytes(from->res.pitch2D.format, to->channels));
      return memory_check(to->address, span_2d(to->pitch, to->height, row));
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

// ---- life --------------------------------------------------------------------------------------

// Keeps what the server made. If an error of earlier commands came with it, it is given back.
static CUresult keep(struct session *session, CUresult result, struct answer *answer,
                     uint64_t value, struct object *object, unsigned long long *out) {
  if (result) {
    if (!answer->result && value) put_TextureDestroy(session, value);
    free(object);
    return result;
  }
  object->session = session;
  object->value = value;
  object->context = context_current_handle();
  pthread_mutex_lock(&lock);
  struct object **bucket = bucket_of(value);
  object->next = *bucket;
  *bucket = object;
  pthread_mutex_unlock(&lock);
  *out = value;
  return CUDA_SUCCESS;
}

static CUresult destroy(uint64_t value, _Bool surface) {
  pthread_mutex_lock(&lock);
  struct object **link = find(value, surface), *object = *link;
  if (object) *link = object->next;
  pthread_mutex_unlock(&lock);
  if (!object) return CUDA_ERROR_INVALID_VALUE;
  struct session *session = object->session;
  free(object);
  return put_TextureDestroy(session, value);
}

// Forgets the objects of a session that were made in a context; in all of them where it is 0.
static void forget(struct session *session, uint64_t context, _Bool tell) {
  pthread_mutex_lock(&lock);
  for (unsigned i = 0; i < BUCKETS; i++) {
    struct object **link = &objects[i];
    while (*link) {
      struct object *object = *link;
      if (object->session != session || (context && object->context != context)) {
        link = &object->next;
        continue;
      }
      *link = object->next;
      if (tell) put_TextureDestroy(session, object->value);
      free(object);
    }
  }
  pthread_mutex_unlock(&lock);
}

void texture_forget_all(struct session *session) { forget(session, 0, 0); }
void texture_destroy_of(struct session *session, uint64_t context) { forget(session, context, 1); }

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuTexObjectCreate(CUtexObject *pTexObject, const CUDA_RESOURCE_DESC *pResDesc,
                                 const CUDA_TEXTURE_DESC *pTexDesc,
                                 const CUDA_RESOURCE_VIEW_DESC *pResViewDesc) {
  if (!pTexObject || !pResDesc || !pTexDesc) return CUDA_ERROR_INVALID_VALUE;
  struct resource r;
  CUresult result = resource_read(pResDesc, &r);
  if (result) return result;
  struct object *object = calloc(1, sizeof *object);
  if (!object) return CUDA_ERROR_OUT_OF_MEMORY;
  object->resource = *pResDesc;
  object->texture = *pTexDesc;
  object->has_view = pResViewDesc != NULL;
  if (pResViewDesc) object->view = *pResViewDesc;
  struct answer answer;
  answer_init(&answer);
  result = ask_TextureCreate(session_here(), r.kind, r.format, r.channels, r.array, r.address,
                             r.width, r.height, r.pitch, pTexDesc, sizeof *pTexDesc,
                             pResViewDesc ? (const void *)pResViewDesc : "",
                             pResViewDesc ? sizeof *pResViewDesc : 0, &answer);
  const struct wire_TextureCreate_reply *reply = answer.reply;
  uint64_t value = reply && !answer.result ? reply->object : 0;
  result = keep(session_here(), result, &answer, value, object, pTexObject);
  answer_free(&answer);
  return result;
}

CUresult guest_cuSurfObjectCreate(CUsurfObject *pSurfObject, const CUDA_RESOURCE_DESC *pResDesc) {
  if (!pSurfObject || !pResDesc || pResDesc->resType != CU_RESOURCE_TYPE_ARRAY)
    return CUDA_ERROR_INVALID_VALUE;
  struct resource r;
  CUresult result = resource_read(pResDesc, &r);
  if (result) return result;
  if (!(array_find(pResDesc->res.array.hArray)->descriptor.Flags & ARRAY_SURFACE))
    return CUDA_ERROR_INVALID_VALUE;
  struct object *object = calloc(1, sizeof *object);
  if (!object) return CUDA_ERROR_OUT_OF_MEMORY;
  object->surface = 1;
  object->resource = *pResDesc;
  struct answer answer;
  answer_init(&answer);
  result = ask_SurfaceCreate(session_here(), r.array, &answer);
  const struct wire_SurfaceCreate_reply *reply = answer.reply;
  uint64_t value = reply && !answer.result ? reply->object : 0;
  result = keep(session_here(), result, &answer, value, object, pSurfObject);
  answer_free(&answer);
  return result;
}

CUresult guest_cuTexObjectDestroy(CUtexObject texObject) { return destroy(texObject, 0); }
CUresult guest_cuSurfObjectDestroy(CUsurfObject surfObject) { return destroy(surfObject, 1); }

// Copies what is known of an object. CUDA_ERROR_INVALID_VALUE when there is no such object.
static CUresult read(uint64_t value, _Bool surface, struct object *copy) {
  pthread_mutex_lock(&lock);
  const struct object *object = *find(value, surface);
  if (object) *copy = *object;
  pthread_mutex_unlock(&lock);
  return object ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult guest_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUtexObject texObject) {
  struct object object;
  if (!pResDesc || read(texObject, 0, &object)) return CUDA_ERROR_INVALID_VALUE;
  *pResDesc = object.resource;
  return CUDA_SUCCESS;
}

CUresult guest_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *pTexDesc, CUtexObject texObject) {
  struct object object;
  if (!pTexDesc || read(texObject, 0, &object)) return CUDA_ERROR_INVALID_VALUE;
  *pTexDesc = object.texture;
  return CUDA_SUCCESS;
}

CUresult guest_cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *pResViewDesc,
                                              CUtexObject texObject) {
  struct object object;
  if (!pResViewDesc || read(texObject, 0, &object) || !object.has_view)
    return CUDA_ERROR_INVALID_VALUE;
  *pResViewDesc = object.view;
  return CUDA_SUCCESS;
}

CUresult guest_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *pResDesc, CUsurfObject surfObject) {
  struct object object;
  if (!pResDesc || read(surfObject, 1, &object)) return CUDA_ERROR_INVALID_VALUE;
  *pResDesc = object.resource;
  return CUDA_SUCCESS;
}
