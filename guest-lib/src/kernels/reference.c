// Texture and surface references: variables of modules that programs bind to memory by name. What
// is set is kept here and sent as a whole, so that launches after it see it.
#include "kernels/reference.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "abi_array.h"
#include "arrays/array.h"
#include "arrays/texture.h"
#include "guest_calls.h"
#include "kernels/internal.h"
#include "kernels/lookup.h"
#include "session/context.h"
#include "session/handle.h"
#include "wire/answer.h"

#define TEXTURE_ALIGN 512
#define PITCH_ALIGN 32

struct reference {
  struct reference *next;
  uint64_t handle;
  uint64_t module;   // 0: created by the program, and the guest's alone
  uint64_t context;  // of a created one
  char *name;
  _Bool surface, bound;
  CUDA_RESOURCE_DESC resource;
  CUDA_TEXTURE_DESC settings;
  CUarray_format format;
  unsigned channels;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;  // for what is set, and the list
static struct reference *references;

static struct reference *find(const void *handle, _Bool surface) {
  struct reference *reference = handle_object(WIRE_KIND_REFERENCE, handle_of(handle));
  return reference && reference->surface == surface ? reference : NULL;
}

// ---- life --------------------------------------------------------------------------------------

// With the lock held.
static struct reference *add(uint64_t module, const char *name, _Bool surface) {
  struct reference *reference = calloc(1, sizeof *reference);
  if (!reference) return NULL;
  reference->name = strdup(name);
  reference->handle =
      reference->name ? handle_mint(session_here(), WIRE_KIND_REFERENCE, reference) : 0;
  if (!reference->handle) {
    free(reference->name);
    free(reference);
    return NULL;
  }
  reference->module = module;
  reference->surface = surface;
  reference->format = CU_AD_FORMAT_FLOAT;
  reference->channels = 1;
  for (int i = 0; i < 3; i++) reference->settings.addressMode[i] = CU_TR_ADDRESS_MODE_CLAMP;
  reference->next = references;
  references = reference;
  return reference;
}

// With the lock held. The server knows nothing of it any more.
static void drop(struct reference **link) {
  struct reference *reference = *link;
  *link = reference->next;
  handle_retire(WIRE_KIND_REFERENCE, reference->handle);
  handle_recycle(WIRE_KIND_REFERENCE, reference->handle);
  free(reference->name);
  free(reference);
}

void reference_forget_of(uint64_t module) {
  pthread_mutex_lock(&lock);
  for (struct reference **link = &references; *link;)
    if ((*link)->module == module)
      drop(link);
    else
      link = &(*link)->next;
  pthread_mutex_unlock(&lock);
}

void reference_destroy_of(const struct session *session, uint64_t context) {
  pthread_mutex_lock(&lock);
  for (struct reference **link = &references; *link;)
    if (!(*link)->module && (!context || (*link)->context == context) &&
        handle_session(WIRE_KIND_REFERENCE, (*link)->handle) == session)
      drop(link);
    else
      link = &(*link)->next;
  pthread_mutex_unlock(&lock);
}

// Asks for one that was just added; it is gone again when there is none of that name.
static CUresult ask(const struct module *module, struct reference *reference) {
  struct answer answer;
  answer_init(&answer);
  CUresult result =
      ask_ReferenceGet(session_here(), module->wire, reference->handle, reference->surface,
                       reference->name, (uint32_t)strlen(reference->name), &answer);
  answer_free(&answer);
  if (answer.result) drop(&references);
  return result;
}

static CUresult look_up(void *out, CUmodule handle, const char *name, _Bool surface) {
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&module_lock);
  struct module *module = module_find(handle);
  CUresult result = module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  if (!result && !name) result = CUDA_ERROR_INVALID_VALUE;
  if (!result && strlen(name) > WIRE_FRAME_MAX / 2) result = CUDA_ERROR_NOT_FOUND;
  if (!result) result = module_revive(module);
  if (result) {
    pthread_mutex_unlock(&module_lock);
    return result;
  }
  pthread_mutex_lock(&lock);
  struct reference *reference = references;
  while (reference && (reference->module != module->own || reference->surface != surface ||
                       strcmp(reference->name, name) != 0))
    reference = reference->next;
  if (!reference) {
    reference = add(module->own, name, surface);
    result = reference ? ask(module, reference) : CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!result) *(uint64_t *)out = reference->handle;
  pthread_mutex_unlock(&lock);
  pthread_mutex_unlock(&module_lock);
  return result;
}

// ---- what is set -------------------------------------------------------------------------------

// Tells the server all of it. With the lock held, so that what is set last is sent last.
static CUresult send(const struct reference *reference) {
  if (!reference->module) return CUDA_SUCCESS;
  struct resource r = {0};
  // What it was bound to may be gone: then it is bound to nothing.
  _Bool bound = reference->bound && resource_read(&reference->resource, &r) == CUDA_SUCCESS;
  return put_TextureReferenceSet(session_here(), reference->handle, bound, r.kind, r.format,
                                 r.channels, r.array, r.address, r.width, r.height, r.pitch,
                                 reference->format, reference->channels, &reference->settings,
                                 sizeof reference->settings);
}

// The reference, with the lock held; NULL, and nothing is locked, when it is none.
static struct reference *begin(CUtexref handle) {
  pthread_mutex_lock(&lock);
  struct reference *reference = find(handle, 0);
  if (!reference) pthread_mutex_unlock(&lock);
  return reference;
}
static CUresult end(CUresult result) {
  pthread_mutex_unlock(&lock);
  return result;
}
static CUresult end_change(const struct reference *reference, CUresult result) {
  return end(result ? result : send(reference));
}

// Whether a resource can be bound at all; what else the driver has against it, the launch shows.
static CUresult check(const CUDA_RESOURCE_DESC *of) {
  struct resource r;
  CUresult result = resource_read(of, &r);
  if (result || r.array) return result;
  int device = device_here();
#define LIMIT(name) (uint64_t) device_attribute(device, CU_DEVICE_ATTRIBUTE_MAXIMUM_##name)
  uint64_t element = abi_element_bytes((CUarray_format)r.format, r.channels);
  if (!element || r.address % TEXTURE_ALIGN) return CUDA_ERROR_INVALID_VALUE;
  if (r.kind == CU_RESOURCE_TYPE_LINEAR) {
    uint64_t elements = r.width / element;
    return elements && elements <= LIMIT(TEXTURE1D_LINEAR_WIDTH) ? CUDA_SUCCESS
                                                                 : CUDA_ERROR_INVALID_VALUE;
  }
  if (!r.width || !r.height || r.width > LIMIT(TEXTURE2D_LINEAR_WIDTH) ||
      r.height > LIMIT(TEXTURE2D_LINEAR_HEIGHT) || r.pitch > LIMIT(TEXTURE2D_LINEAR_PITCH) ||
      r.pitch % PITCH_ALIGN || r.pitch < r.width * element)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
#undef LIMIT
}

static CUresult bind(struct reference *reference, const CUDA_RESOURCE_DESC *resource) {
  CUresult result = check(resource);
  if (result) return result;
  reference->resource = *resource;
  reference->bound = 1;
  return CUDA_SUCCESS;
}

static CUresult bind_array(CUtexref handle, const struct array *array, unsigned flags,
                           const CUDA_RESOURCE_DESC *resource) {
  struct reference *reference = begin(handle);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  const unsigned override = REFERENCE_OVERRIDE_FORMAT;
  if (!array || flags & ~override) return end(CUDA_ERROR_INVALID_VALUE);
  if (flags & override) {
    reference->format = array->descriptor.Format;
    reference->channels = array->descriptor.NumChannels;
  }
  return end_change(reference, bind(reference, resource));
}

// ---- entry points: life ------------------------------------------------------------------------

CUresult guest_cuModuleGetTexRef(CUtexref *pTexRef, CUmodule hmod, const char *name) {
  return look_up(pTexRef, hmod, name, 0);
}

CUresult guest_cuModuleGetSurfRef(CUsurfref *pSurfRef, CUmodule hmod, const char *name) {
  return look_up(pSurfRef, hmod, name, 1);
}

CUresult guest_cuTexRefCreate(CUtexref *pTexRef) {
  if (!pTexRef) return CUDA_ERROR_INVALID_VALUE;
  pthread_mutex_lock(&lock);
  struct reference *reference = add(0, "", 0);
  if (!reference) return end(CUDA_ERROR_OUT_OF_MEMORY);
  reference->context = context_current_handle();
  *pTexRef = (CUtexref)(uintptr_t)reference->handle;
  return end(CUDA_SUCCESS);
}

CUresult guest_cuTexRefDestroy(CUtexref hTexRef) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (reference->module) return end(CUDA_ERROR_INVALID_VALUE);
  struct reference **link = &references;
  while (*link != reference) link = &(*link)->next;
  drop(link);
  return end(CUDA_SUCCESS);
}

// All functions of a module see its references; nothing else can be attached.
CUresult guest_cuParamSetTexRef(CUfunction hfunc, int texunit, CUtexref hTexRef) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!function_find(hfunc)) return end(CUDA_ERROR_INVALID_HANDLE);
  return end(texunit == -1 && reference->module ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE);
}

// ---- entry points: what is bound ---------------------------------------------------------------

CUresult guest_cuTexRefSetArray(CUtexref hTexRef, CUarray hArray, unsigned int Flags) {
  CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_ARRAY, .res.array.hArray = hArray};
  return bind_array(hTexRef, array_find(hArray), Flags, &resource);
}

CUresult guest_cuTexRefSetMipmappedArray(CUtexref hTexRef, CUmipmappedArray hMipmappedArray,
                                         unsigned int Flags) {
  CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY,
                                 .res.mipmap.hMipmappedArray = hMipmappedArray};
  return bind_array(hTexRef, array_find_mipmapped(hMipmappedArray), Flags, &resource);
}

CUresult guest_cuTexRefSetAddress_v2(size_t *ByteOffset, CUtexref hTexRef, CUdeviceptr dptr,
                                     size_t bytes) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  size_t beyond = dptr % TEXTURE_ALIGN;
  if ((beyond && !ByteOffset) || bytes > SIZE_MAX - beyond) return end(CUDA_ERROR_INVALID_VALUE);
  CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_LINEAR};
  resource.res.linear.devPtr = dptr - beyond;
  resource.res.linear.format = reference->format;
  resource.res.linear.numChannels = reference->channels;
  resource.res.linear.sizeInBytes = bytes + beyond;
  CUresult result = bind(reference, &resource);
  if (!result && ByteOffset) *ByteOffset = beyond;
  return end_change(reference, result);
}

CUresult guest_cuTexRefSetAddress2D_v3(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
                                       CUdeviceptr dptr, size_t Pitch) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!desc) return end(CUDA_ERROR_INVALID_VALUE);
  CUDA_RESOURCE_DESC resource = {.resType = CU_RESOURCE_TYPE_PITCH2D};
  resource.res.pitch2D.devPtr = dptr;
  resource.res.pitch2D.format = desc->Format;
  resource.res.pitch2D.numChannels = desc->NumChannels;
  resource.res.pitch2D.width = desc->Width;
  resource.res.pitch2D.height = desc->Height;
  resource.res.pitch2D.pitchInBytes = Pitch;
  CUresult result = bind(reference, &resource);
  if (!result) {
    reference->format = desc->Format;
    reference->channels = desc->NumChannels;
  }
  return end_change(reference, result);
}

CUresult guest_cuTexRefSetAddress2D_v2(CUtexref hTexRef, const CUDA_ARRAY_DESCRIPTOR *desc,
                                       CUdeviceptr dptr, size_t Pitch) {
  return guest_cuTexRefSetAddress2D_v3(hTexRef, desc, dptr, Pitch);
}

CUresult guest_cuTexRefGetArray(CUarray *phArray, CUtexref hTexRef) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!phArray || !reference->bound || reference->resource.resType != CU_RESOURCE_TYPE_ARRAY)
    return end(CUDA_ERROR_INVALID_VALUE);
  *phArray = reference->resource.res.array.hArray;
  return end(CUDA_SUCCESS);
}

CUresult guest_cuTexRefGetMipmappedArray(CUmipmappedArray *phMipmappedArray, CUtexref hTexRef) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!phMipmappedArray || !reference->bound ||
      reference->resource.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    return end(CUDA_ERROR_INVALID_VALUE);
  *phMipmappedArray = reference->resource.res.mipmap.hMipmappedArray;
  return end(CUDA_SUCCESS);
}

CUresult guest_cuTexRefGetAddress_v2(CUdeviceptr *pdptr, CUtexref hTexRef) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_RESOURCE_DESC *resource = &reference->resource;
  if (!pdptr || !reference->bound) return end(CUDA_ERROR_INVALID_VALUE);
  if (resource->resType == CU_RESOURCE_TYPE_LINEAR)
    *pdptr = resource->res.linear.devPtr;
  else if (resource->resType == CU_RESOURCE_TYPE_PITCH2D)
    *pdptr = resource->res.pitch2D.devPtr;
  else
    return end(CUDA_ERROR_INVALID_VALUE);
  return end(CUDA_SUCCESS);
}

// ---- entry points: settings --------------------------------------------------------------------

// A setting and the question for it: `valid` of what is given, and what it sets.
#define SETTING(setter, getter, given_type, asked_type, valid, field) \
  CUresult guest_##setter(CUtexref hTexRef, given_type given) {       \
    struct reference *reference = begin(hTexRef);                     \
    if (!reference) return CUDA_ERROR_INVALID_VALUE;                  \
    if (!(valid)) return end(CUDA_ERROR_INVALID_VALUE);               \
    reference->settings.field = given;                                \
    return end_change(reference, CUDA_SUCCESS);                       \
  }                                                                   \
  CUresult guest_##getter(asked_type *asked, CUtexref hTexRef) {      \
    struct reference *reference = begin(hTexRef);                     \
    if (!reference) return CUDA_ERROR_INVALID_VALUE;                  \
    if (!asked) return end(CUDA_ERROR_INVALID_VALUE);                 \
    *asked = (asked_type)reference->settings.field;                   \
    return end(CUDA_SUCCESS);                                         \
  }

#define IS_FILTER (given == CU_TR_FILTER_MODE_POINT || given == CU_TR_FILTER_MODE_LINEAR)
SETTING(cuTexRefSetFilterMode, cuTexRefGetFilterMode, CUfilter_mode, CUfilter_mode, IS_FILTER,
        filterMode)
SETTING(cuTexRefSetMipmapFilterMode, cuTexRefGetMipmapFilterMode, CUfilter_mode, CUfilter_mode,
        IS_FILTER, mipmapFilterMode)
SETTING(cuTexRefSetMipmapLevelBias, cuTexRefGetMipmapLevelBias, float, float, 1, mipmapLevelBias)
SETTING(cuTexRefSetMaxAnisotropy, cuTexRefGetMaxAnisotropy, unsigned int, int, 1, maxAnisotropy)
SETTING(cuTexRefSetFlags, cuTexRefGetFlags, unsigned int, unsigned int,
        !(given & ~(unsigned)TEXTURE_FLAGS), flags)

CUresult guest_cuTexRefSetFormat(CUtexref hTexRef, CUarray_format fmt, int NumPackedComponents) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!abi_element_bytes(fmt, (unsigned)NumPackedComponents)) return end(CUDA_ERROR_INVALID_VALUE);
  reference->format = fmt;
  reference->channels = (unsigned)NumPackedComponents;
  return end_change(reference, CUDA_SUCCESS);
}

CUresult guest_cuTexRefGetFormat(CUarray_format *pFormat, int *pNumChannels, CUtexref hTexRef) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!pFormat || !pNumChannels) return end(CUDA_ERROR_INVALID_VALUE);
  *pFormat = reference->format;
  *pNumChannels = (int)reference->channels;
  return end(CUDA_SUCCESS);
}

CUresult guest_cuTexRefSetAddressMode(CUtexref hTexRef, int dim, CUaddress_mode am) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (dim < 0 || dim > 2 || (unsigned)am > CU_TR_ADDRESS_MODE_BORDER)
    return end(CUDA_ERROR_INVALID_VALUE);
  reference->settings.addressMode[dim] = am;
  return end_change(reference, CUDA_SUCCESS);
}

CUresult guest_cuTexRefGetAddressMode(CUaddress_mode *pam, CUtexref hTexRef, int dim) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!pam || dim < 0 || dim > 2) return end(CUDA_ERROR_INVALID_VALUE);
  *pam = reference->settings.addressMode[dim];
  return end(CUDA_SUCCESS);
}

CUresult guest_cuTexRefSetMipmapLevelClamp(CUtexref hTexRef, float minMipmapLevelClamp,
                                           float maxMipmapLevelClamp) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  reference->settings.minMipmapLevelClamp = minMipmapLevelClamp;
  reference->settings.maxMipmapLevelClamp = maxMipmapLevelClamp;
  return end_change(reference, CUDA_SUCCESS);
}

CUresult guest_cuTexRefGetMipmapLevelClamp(float *pminMipmapLevelClamp, float *pmaxMipmapLevelClamp,
                                           CUtexref hTexRef) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!pminMipmapLevelClamp || !pmaxMipmapLevelClamp) return end(CUDA_ERROR_INVALID_VALUE);
  *pminMipmapLevelClamp = reference->settings.minMipmapLevelClamp;
  *pmaxMipmapLevelClamp = reference->settings.maxMipmapLevelClamp;
  return end(CUDA_SUCCESS);
}

CUresult guest_cuTexRefSetBorderColor(CUtexref hTexRef, float *pBorderColor) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!pBorderColor) return end(CUDA_ERROR_INVALID_VALUE);
  memcpy(reference->settings.borderColor, pBorderColor, sizeof reference->settings.borderColor);
  return end_change(reference, CUDA_SUCCESS);
}

CUresult guest_cuTexRefGetBorderColor(float *pBorderColor, CUtexref hTexRef) {
  struct reference *reference = begin(hTexRef);
  if (!reference) return CUDA_ERROR_INVALID_VALUE;
  if (!pBorderColor) return end(CUDA_ERROR_INVALID_VALUE);
  memcpy(pBorderColor, reference->settings.borderColor, sizeof reference->settings.borderColor);
  return end(CUDA_SUCCESS);
}

// ---- entry points: surfaces --------------------------------------------------------------------

CUresult guest_cuSurfRefSetArray(CUsurfref hSurfRef, CUarray hArray, unsigned int Flags) {
  const struct array *array = array_find(hArray);
  pthread_mutex_lock(&lock);
  struct reference *reference = find(hSurfRef, 1);
  if (!reference || Flags || !array || !(array->descriptor.Flags & ARRAY_SURFACE))
    return end(CUDA_ERROR_INVALID_VALUE);
  reference->resource.res.array.hArray = hArray;
  reference->bound = 1;
  return end(put_SurfaceReferenceSet(session_here(), reference->handle, array->wire));
}

CUresult guest_cuSurfRefGetArray(CUarray *phArray, CUsurfref hSurfRef) {
  pthread_mutex_lock(&lock);
  struct reference *reference = find(hSurfRef, 1);
  if (!reference || !phArray || !reference->bound) return end(CUDA_ERROR_INVALID_VALUE);
  *phArray = reference->resource.res.array.hArray;
  return end(CUDA_SUCCESS);
}
