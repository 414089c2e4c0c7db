// Allocation of device memory, as programs call it.
#include "allocation/sharing.h"
#include "guest_calls.h"
#include "memory/memory.h"
#include "memory/memory_range.h"
#include "streams/recorder.h"

#define PITCH_ALIGN 512

CUresult guest_cuMemAlloc_v2(CUdeviceptr *dptr, size_t bytesize) {
  return memory_obtain(bytesize, ALLOCATION_PLAIN, dptr);
}

CUresult guest_cuMemAllocPitch_v2(CUdeviceptr *dptr, size_t *pPitch, size_t WidthInBytes,
                                  size_t Height, unsigned int ElementSizeBytes) {
  if (!pPitch || !WidthInBytes || !Height) return CUDA_ERROR_INVALID_VALUE;
  if (ElementSizeBytes != 4 && ElementSizeBytes != 8 && ElementSizeBytes != 16)
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t pitch = (WidthInBytes + PITCH_ALIGN - 1) & ~(uint64_t)(PITCH_ALIGN - 1), bytes;
  if (pitch < WidthInBytes || __builtin_mul_overflow(pitch, Height, &bytes))
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = memory_obtain(bytes, ALLOCATION_PLAIN, dptr);
  if (!result) *pPitch = pitch;
  return result;
}

CUresult guest_cuMemFree_v2(CUdeviceptr dptr) {
  if (!dptr) return CUDA_SUCCESS;
  CUresult result = recorder->free_left(dptr);
  if (result != GRAPH_MEMORY_NONE) return result;
  struct allocation found;
  result = memory_free(dptr);
  if (result == CUDA_ERROR_INVALID_VALUE && memory_find(dptr, &found) && sharing_is_of_pool(&found))
    result = sharing_close(dptr, 1);
  return result;
}
