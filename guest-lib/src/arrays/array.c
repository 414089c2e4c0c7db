#include "arrays/array.h"

#include <pthread.h>
#include <stdlib.h>

#include "abi_array.h"
#include "guest_calls.h"
#include "memory/limit.h"
#include "session/context.h"
#include "session/device.h"
#include "session/handle.h"
#include "session/session.h"

static struct array *find(const void *handle, _Bool mipmapped) {
  struct array *array = handle_object(WIRE_KIND_ARRAY, handle_of(handle));
  return array && (array->levels != 0) == mipmapped ? array : NULL;
}

struct array *array_find(CUarray handle) {
  return find(handle, 0);
}
struct array *array_find_mipmapped(CUmipmappedArray handle) {
  return find(handle, 1);
}

// ---- shapes ------------------------------------------------------------------------------------

struct extents {
  int width, height, depth;
};

static struct extents limits_of(const CUDA_ARRAY3D_DESCRIPTOR *of, _Bool mipmapped) {
  int device = device_here();
#define LIMIT(name) device_attribute(device, CU_DEVICE_ATTRIBUTE_MAXIMUM_##name)
  _Bool surface = of->Flags & ARRAY_SURFACE;
  if (of->Flags & ARRAY_CUBE) {
    if (of->Flags & ARRAY_LAYERED)
      return (struct extents){LIMIT(TEXTURECUBEMAP_LAYERED_WIDTH),
                              LIMIT(TEXTURECUBEMAP_LAYERED_WIDTH),
                              LIMIT(TEXTURECUBEMAP_LAYERED_LAYERS)};
    return (struct extents){LIMIT(TEXTURECUBEMAP_WIDTH), LIMIT(TEXTURECUBEMAP_WIDTH), 6};
  }
  if (of->Flags & ARRAY_LAYERED) {
    if (of->Height)
      return (struct extents){LIMIT(TEXTURE2D_LAYERED_WIDTH), LIMIT(TEXTURE2D_LAYERED_HEIGHT),
                              LIMIT(TEXTURE2D_LAYERED_LAYERS)};
    return (struct extents){LIMIT(TEXTURE1D_LAYERED_WIDTH), 0, LIMIT(TEXTURE1D_LAYERED_LAYERS)};
  }
  if (of->Depth) {
    // Either extent, or the alternate one that is lower and deeper.
    if (of->Depth > (uint64_t)LIMIT(TEXTURE3D_DEPTH) && !surface)
      return (struct extents){LIMIT(TEXTURE3D_WIDTH_ALTERNATE), LIMIT(TEXTURE3D_HEIGHT_ALTERNATE),
                              LIMIT(TEXTURE3D_DEPTH_ALTERNATE)};
    return (struct extents){LIMIT(TEXTURE3D_WIDTH), LIMIT(TEXTURE3D_HEIGHT),
                            LIMIT(TEXTURE3D_DEPTH)};
  }
  if (of->Height) {
    if (mipmapped)
      return (struct extents){LIMIT(TEXTURE2D_MIPMAPPED_WIDTH), LIMIT(TEXTURE2D_MIPMAPPED_HEIGHT),
                              0};
    if (of->Flags & ARRAY_GATHER)
      return (struct extents){LIMIT(TEXTURE2D_GATHER_WIDTH), LIMIT(TEXTURE2D_GATHER_HEIGHT), 0};
    return (struct extents){LIMIT(TEXTURE2D_WIDTH), LIMIT(TEXTURE2D_HEIGHT), 0};
  }
  if (mipmapped) return (struct extents){LIMIT(TEXTURE1D_MIPMAPPED_WIDTH), 0, 0};
  if (surface) return (struct extents){LIMIT(SURFACE1D_WIDTH), 0, 0};
  return (struct extents){LIMIT(TEXTURE1D_WIDTH), 0, 0};
#undef LIMIT
}

static CUresult check_format(CUarray_format format, unsigned channels, unsigned *element) {
  unsigned needed;
  if (!abi_format_bytes(format, &needed)) {
    // Compressed, or of several planes.
    _Bool elsewhere = ((int)format >= CU_AD_FORMAT_BC1_UNORM && (int)format <= 169) ||
                      (int)format == CU_AD_FORMAT_NV12 ||
                      ((int)format >= 177 && (int)format <= 181);
    return elsewhere ? CUDA_ERROR_NOT_SUPPORTED : CUDA_ERROR_INVALID_VALUE;
  }
  *element = abi_element_bytes(format, channels);
  return *element ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static CUresult check_flags(const CUDA_ARRAY3D_DESCRIPTOR *of) {
  const unsigned known = ARRAY_LAYERED | ARRAY_SURFACE | ARRAY_CUBE | ARRAY_GATHER;
  const unsigned elsewhere =
      ARRAY_DEPTH | ARRAY_COLOR | ARRAY_SPARSE | ARRAY_DEFERRED | ARRAY_VIDEO;
  if (of->Flags & ~(known | elsewhere)) return CUDA_ERROR_INVALID_VALUE;
  if (of->Flags & elsewhere) return CUDA_ERROR_NOT_SUPPORTED;
  // Gathers are of planes.
  if ((of->Flags & ARRAY_GATHER) && (!of->Height || of->Depth)) return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult check_shape(const CUDA_ARRAY3D_DESCRIPTOR *of, unsigned levels, unsigned *element) {
  _Bool layered = of->Flags & ARRAY_LAYERED, cube = of->Flags & ARRAY_CUBE;
  CUresult result = check_format(of->Format, of->NumChannels, element);
  if (!result) result = check_flags(of);
  if (result) return result;
  if (!of->Width || (of->Depth && !of->Height && !layered)) return CUDA_ERROR_INVALID_VALUE;
  if ((layered || cube) && !of->Depth) return CUDA_ERROR_INVALID_VALUE;
  if (cube && (of->Width != of->Height || of->Depth % 6 || (!layered && of->Depth != 6)))
    return CUDA_ERROR_INVALID_VALUE;
  struct extents most = limits_of(of, levels > 1);
  if (of->Width > (uint64_t)most.width || of->Height > (uint64_t)most.height ||
      of->Depth > (uint64_t)most.depth)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

// Returns how many levels a mipmapped array gets: as many as were asked for, or as there can be.
static unsigned levels_of(const CUDA_ARRAY3D_DESCRIPTOR *of, unsigned asked) {
  uint64_t longest = of->Width > of->Height ? of->Width : of->Height;
  if (!(of->Flags & (ARRAY_LAYERED | ARRAY_CUBE)) && of->Depth > longest) longest = of->Depth;
  unsigned most = 0;
  while (longest >> most && most < 32) most++;
  if (asked > most) asked = most;
  return asked ? asked : 1;
}

// ---- life --------------------------------------------------------------------------------------

static CUresult create(const CUDA_ARRAY3D_DESCRIPTOR *of, unsigned levels, void *handle) {
  unsigned element;
  CUresult result = check_shape(of, levels, &element);
  if (result) return result;
  struct array *array = calloc(1, sizeof *array);
  struct array **level = levels ? calloc(levels, sizeof *level) : NULL;
  if (!array || (levels && !level)) {
    free(array);
    free(level);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *array = (struct array){.context = context_current_handle(),
                          .descriptor = *of,
                          .element = element,
                          .levels = levels,
                          .level = level};
  array->bytes = abi_array_bytes(element, of->Width, of->Height, of->Depth,
                                 of->Flags & (ARRAY_LAYERED | ARRAY_CUBE), levels);
  struct session *session = session_here();
  result = memory_take_beside(session, array->bytes);
  if (!result) {
    array->wire = handle_mint(session, WIRE_KIND_ARRAY, array);
    if (array->wire) {
      *(uint64_t *)handle = array->wire;
      return put_ArrayCreate(session, array->wire, of->Width, of->Height, of->Depth, of->Format,
                             of->NumChannels, of->Flags, levels);
    }
    result = CUDA_ERROR_OUT_OF_MEMORY;
  }
  free(level);
  free(array);
  return result;
}

// Ends an array that nothing uses any more, and whose handles have been retired.
static void end(struct session *session, void *object, _Bool tell) {
  struct array *array = object;
  if (tell) put_ArrayDestroy(session, array->wire);
  for (unsigned i = 0; i < array->levels; i++) {
    if (!array->level[i]) continue;
    handle_recycle(WIRE_KIND_ARRAY, array->level[i]->wire);
    free(array->level[i]);
  }
  handle_recycle(WIRE_KIND_ARRAY, array->wire);
  free(array->level);
  free(array);
}

static void retire_handles(struct array *array) {
  for (unsigned i = 0; i < array->levels; i++)
    if (array->level[i]) handle_retire(WIRE_KIND_ARRAY, array->level[i]->wire);
  handle_retire(WIRE_KIND_ARRAY, array->wire);
}

static CUresult destroy(struct array *array) {
  if (!array || array->mipmapped) return CUDA_ERROR_INVALID_HANDLE;
  retire_handles(array);
  return memory_leave_beside(session_here(), array->bytes, end, array);
}

static void forget(uint64_t handle, void *object, void *session) {
  (void)handle;
  struct array *array = object;
  if (array->mipmapped) return;
  retire_handles(array);
  end(session, array, 0);
}

void array_forget_all(struct session *session) {
  handle_each(session, WIRE_KIND_ARRAY, forget, session);
}

static void destroy_in(uint64_t handle, void *object, void *context) {
  (void)handle;
  struct array *array = object;
  if (!array->mipmapped && array->context == *(uint64_t *)context) destroy(array);
}

void array_destroy_of(struct session *session, uint64_t context) {
  handle_each(session, WIRE_KIND_ARRAY, destroy_in, &context);
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuArray3DCreate_v2(CUarray *pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray) {
  if (!pHandle || !pAllocateArray) return CUDA_ERROR_INVALID_VALUE;
  return create(pAllocateArray, 0, pHandle);
}

CUresult guest_cuArrayCreate_v2(CUarray *pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray) {
  if (!pHandle || !pAllocateArray) return CUDA_ERROR_INVALID_VALUE;
  CUDA_ARRAY3D_DESCRIPTOR of = {.Width = pAllocateArray->Width,
                                .Height = pAllocateArray->Height,
                                .Format = pAllocateArray->Format,
                                .NumChannels = pAllocateArray->NumChannels};
  return create(&of, 0, pHandle);
}

CUresult guest_cuMipmappedArrayCreate(CUmipmappedArray *pHandle,
                                      const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc,
                                      unsigned int numMipmapLevels) {
  if (!pHandle || !pMipmappedArrayDesc) return CUDA_ERROR_INVALID_VALUE;
  return create(pMipmappedArrayDesc, levels_of(pMipmappedArrayDesc, numMipmapLevels), pHandle);
}

CUresult guest_cuArrayDestroy(CUarray hArray) { return destroy(array_find(hArray)); }

CUresult guest_cuMipmappedArrayDestroy(CUmipmappedArray hMipmappedArray) {
  return destroy(array_find_mipmapped(hMipmappedArray));
}

static size_t smaller(size_t extent, unsigned level) {
  if (!extent) return 0;
  return extent >> level ? extent >> level : 1;
}

CUresult guest_cuMipmappedArrayGetLevel(CUarray *pLevelArray, CUmipmappedArray hMipmappedArray,
                                        unsigned int level) {
  struct array *whole = array_find_mipmapped(hMipmappedArray);
  if (!whole) return CUDA_ERROR_INVALID_HANDLE;
  if (!pLevelArray || level >= whole->levels) return CUDA_ERROR_INVALID_VALUE;
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  pthread_mutex_lock(&lock);
  CUresult result = CUDA_SUCCESS;
  struct session *session = session_here();
  if (!whole->level[level]) {
    struct array *array = calloc(1, sizeof *array);
    if (array) array->wire = handle_mint(session, WIRE_KIND_ARRAY, array);
    if (!array || !array->wire) {
      free(array);
      pthread_mutex_unlock(&lock);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
    array->context = whole->context;
    array->element = whole->element;
    array->mipmapped = whole;
    array->descriptor = whole->descriptor;
    CUDA_ARRAY3D_DESCRIPTOR *of = &array->descriptor;
    of->Width = smaller(of->Width, level);
    of->Height = smaller(of->Height, level);
    if (!(of->Flags & (ARRAY_LAYERED | ARRAY_CUBE))) of->Depth = smaller(of->Depth, level);
    whole->level[level] = array;
    result = put_ArrayLevel(session, array->wire, whole->wire, level);
  }
  *pLevelArray = (CUarray)(uintptr_t)whole->level[level]->wire;
  pthread_mutex_unlock(&lock);
  return result;
}

CUresult guest_cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *pArrayDescriptor, CUarray hArray) {
  struct array *array = array_find(hArray);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  if (!pArrayDescriptor) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_ARRAY3D_DESCRIPTOR *of = &array->descriptor;
  *pArrayDescriptor = (CUDA_ARRAY_DESCRIPTOR){of->Width, of->Height, of->Format, of->NumChannels};
  return CUDA_SUCCESS;
}

CUresult guest_cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *pArrayDescriptor,
                                         CUarray hArray) {
  struct array *array = array_find(hArray);
  if (!array) return CUDA_ERROR_INVALID_HANDLE;
  if (!pArrayDescriptor) return CUDA_ERROR_INVALID_VALUE;
  *pArrayDescriptor = array->descriptor;
  return CUDA_SUCCESS;
}

// Arrays of one plane, not sparse, with memory from the start: there are no others here.
static CUresult has_none(const struct array *array) {
  return array ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_INVALID_HANDLE;
}

CUresult guest_cuArrayGetPlane(CUarray *pPlaneArray, CUarray hArray, unsigned int planeIdx) {
  (void)pPlaneArray, (void)planeIdx;
  return has_none(array_find(hArray));
}

CUresult guest_cuArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
                                          CUarray array) {
  (void)sparseProperties;
  return has_none(array_find(array));
}

CUresult guest_cuMipmappedArrayGetSparseProperties(CUDA_ARRAY_SPARSE_PROPERTIES *sparseProperties,
                                                   CUmipmappedArray mipmap) {
  (void)sparseProperties;
  return has_none(array_find_mipmapped(mipmap));
}

CUresult guest_cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements,
                                            CUarray array, CUdevice device) {
  (void)memoryRequirements, (void)device;
  return has_none(array_find(array));
}

CUresult guest_cuMipmappedArrayGetMemoryRequirements(
    CUDA_ARRAY_MEMORY_REQUIREMENTS *memoryRequirements, CUmipmappedArray mipmap, CUdevice device) {
  (void)memoryRequirements, (void)device;
  return has_none(array_find_mipmapped(mipmap));
}

CUresult guest_cuDeviceGetTexture1DLinearMaxWidth(size_t *maxWidthInElements, CUarray_format format,
                                                  unsigned numChannels, CUdevice dev) {
  if (!device_exists(dev)) return CUDA_ERROR_INVALID_DEVICE;
  unsigned element;
  if (!maxWidthInElements) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_format(format, numChannels, &element);
  if (result) return result;
  *maxWidthInElements =
      (size_t)device_attribute(dev, CU_DEVICE_ATTRIBUTE_MAXIMUM_TEXTURE1D_LINEAR_WIDTH);
  return CUDA_SUCCESS;
}
