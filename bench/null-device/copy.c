// Copies that copy and memsets that set: on the calling thread, in the order of the calls, done
// when the call returns. That is the order of every stream, and more.
#include <string.h>

#include "null.h"

CUresult cuMemcpyHtoD_v2(CUdeviceptr destination, const void *source, size_t size) {
  memcpy(null_pointer(destination), source, size);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr destination, const void *source, size_t size,
                              CUstream stream) {
  (void)stream;
  return cuMemcpyHtoD_v2(destination, source, size);
}

CUresult cuMemcpyDtoH_v2(void *destination, CUdeviceptr source, size_t size) {
  memcpy(destination, null_pointer(source), size);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyDtoHAsync_v2(void *destination, CUdeviceptr source, size_t size, CUstream stream) {
  (void)stream;
  return cuMemcpyDtoH_v2(destination, source, size);
}

CUresult cuMemcpy(CUdeviceptr destination, CUdeviceptr source, size_t size) {
  memmove(null_pointer(destination), null_pointer(source), size);
  return CUDA_SUCCESS;
}

CUresult cuMemcpyAsync(CUdeviceptr destination, CUdeviceptr source, size_t size, CUstream stream) {
  (void)stream;
  return cuMemcpy(destination, source, size);
}

CUresult cuMemcpyDtoD_v2(CUdeviceptr destination, CUdeviceptr source, size_t size) {
  return cuMemcpy(destination, source, size);
}

CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr destination, CUdeviceptr source, size_t size,
                              CUstream stream) {
  (void)stream;
  return cuMemcpy(destination, source, size);
}

CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *copy) {
  if (copy->srcMemoryType == CU_MEMORYTYPE_ARRAY || copy->dstMemoryType == CU_MEMORYTYPE_ARRAY)
    return CUDA_ERROR_NOT_SUPPORTED;
  const char *source =
      copy->srcMemoryType == CU_MEMORYTYPE_HOST ? copy->srcHost : null_pointer(copy->srcDevice);
  char *destination =
      copy->dstMemoryType == CU_MEMORYTYPE_HOST ? copy->dstHost : null_pointer(copy->dstDevice);
  source += copy->srcY * copy->srcPitch + copy->srcXInBytes;
  destination += copy->dstY * copy->dstPitch + copy->dstXInBytes;
  for (size_t row = 0; row < copy->Height; row++)
    memmove(destination + row * copy->dstPitch, source + row * copy->srcPitch, copy->WidthInBytes);
  return CUDA_SUCCESS;
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *copy) { return cuMemcpy2DUnaligned_v2(copy); }

CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *copy, CUstream stream) {
  (void)stream;
  return cuMemcpy2DUnaligned_v2(copy);
}

// ---- memsets -----------------------------------------------------------------------------------

static CUresult set(CUdeviceptr destination, const void *value, size_t width, size_t count) {
  char *at = null_pointer(destination);
  if (width == 1) {
    memset(at, *(const unsigned char *)value, count);
  } else {
    for (size_t i = 0; i < count; i++) memcpy(at + i * width, value, width);
  }
  return CUDA_SUCCESS;
}

static CUresult set_2d(CUdeviceptr destination, size_t pitch, const void *value, size_t width,
                       size_t count, size_t rows) {
  for (size_t row = 0; row < rows; row++) set(destination + row * pitch, value, width, count);
  return CUDA_SUCCESS;
}

#define MEMSETS(bits, type)                                                                    \
  CUresult cuMemsetD##bits##_v2(CUdeviceptr to, type value, size_t count) {                    \
    return set(to, &value, sizeof value, count);                                               \
  }                                                                                            \
  CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) { \
    (void)stream;                                                                              \
    return set(to, &value, sizeof value, count);                                               \
  }                                                                                            \
  CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width,      \
                                  size_t height) {                                             \
    return set_2d(to, pitch, &value, sizeof value, width, height);                             \
  }                                                                                            \
  CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width,    \
                                    size_t height, CUstream stream) {                          \
    (void)stream;                                                                              \
    return set_2d(to, pitch, &value, sizeof value, width, height);                             \
  }

MEMSETS(8, unsigned char)
MEMSETS(16, unsigned short)
MEMSETS(32, unsigned int)
