// Copies. To the device they are posted; from the device the caller waits, unless the destination
// is pinned and the call asynchronous: then the data lands when it comes.
#include <string.h>

#include "answer.h"
#include "enter.h"
#include "guest_calls.h"
#include "host_memory.h"
#include "log.h"
#include "memory.h"
#include "stream.h"

static CUresult check_host(const void *pointer) {
  if (!pointer) return CUDA_ERROR_INVALID_VALUE;
  if (!memory_is_device(pointer)) return CUDA_SUCCESS;
  log_warn("%p is a device pointer where a host pointer belongs", pointer);
  return CUDA_ERROR_INVALID_VALUE;
}

static CUresult upload(uint64_t destination, const void *source, uint64_t bytes, uint64_t stream) {
  const char *at = source;
  while (bytes) {
    uint64_t part = bytes < WIRE_BULK_MAX ? bytes : WIRE_BULK_MAX;
    CUresult result = put_Upload(destination, stream, part, at);
    if (result) return result;
    destination += part;
    at += part;
    bytes -= part;
  }
  return CUDA_SUCCESS;
}

static CUresult download_wait(void *destination, uint64_t source, uint64_t bytes, uint64_t stream) {
  if (!bytes) return CUDA_SUCCESS;
  struct answer answer;
  answer_init(&answer);
  answer_into(&answer, destination, bytes);
  CUresult result = ask_Download(source, bytes, stream, &answer);
  answer_free(&answer);
  if (result) return result;
  if (stream == STREAM_LEGACY_WIRE)
    legacy_operation_settled(answer.sequence);
  else
    stream_settled(stream, answer.sequence);
  return CUDA_SUCCESS;
}

static CUresult download_defer(void *destination, uint64_t source, uint64_t bytes,
                               uint64_t stream) {
  if (!bytes) return CUDA_SUCCESS;
  struct answer *answer = answer_take_deferred();
  if (!answer) return CUDA_ERROR_OUT_OF_MEMORY;
  answer->deferred = 1;
  answer_into(answer, destination, bytes);
  struct wire_Download *frame = batch_ask(WIRE_Download, sizeof *frame, answer);
  if (!frame) {
    answer_give_back(answer);
    return guest_lost();
  }
  frame->source = source;
  frame->length = bytes;
  frame->stream = stream;
  return batch_defer(stream);
}

static CUresult download(void *destination, uint64_t source, uint64_t bytes, uint64_t stream,
                         _Bool async) {
  if (async && host_is_pinned(destination, bytes))
    return download_defer(destination, source, bytes, stream);
  return download_wait(destination, source, bytes, stream);
}

// Between host buffers, after downloads that are on their way into one of them.
static CUresult wait_for_downloads(void) {
  return answer_outstanding() ? context_synchronize() : CUDA_SUCCESS;
}

static CUresult copy_any(void *destination, const void *source, uint64_t bytes, uint64_t stream,
                         _Bool async) {
  if (!bytes) return CUDA_SUCCESS;
  if (!destination || !source) return CUDA_ERROR_INVALID_VALUE;
  _Bool to_device = memory_is_device(destination), from_device = memory_is_device(source);
  CUresult result = CUDA_SUCCESS;
  if (to_device) result = memory_check((uint64_t)(uintptr_t)destination, bytes);
  if (!result && from_device) result = memory_check((uint64_t)(uintptr_t)source, bytes);
  if (result) return result;
  if (to_device && from_device)
    return put_cuMemcpyDtoDAsync_v2((uint64_t)(uintptr_t)destination, (uint64_t)(uintptr_t)source,
                                    bytes, stream);
  if (to_device) return upload((uint64_t)(uintptr_t)destination, source, bytes, stream);
  if (from_device) return download(destination, (uint64_t)(uintptr_t)source, bytes, stream, async);
  result = wait_for_downloads();
  if (!result) memmove(destination, source, bytes);
  return result;
}

// ---- one-dimensional ---------------------------------------------------------------------------

CUresult guest_cuMemcpyHtoDAsync_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                                    CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (!result && ByteCount) result = check_host(srcHost);
  if (!result) result = memory_check(dstDevice, ByteCount);
  return result ? result : upload(dstDevice, srcHost, ByteCount, stream);
}

CUresult guest_cuMemcpyHtoD_v2(CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount,
                               int per_thread) {
  return guest_cuMemcpyHtoDAsync_v2(dstDevice, srcHost, ByteCount, NULL, per_thread);
}

CUresult guest_cuMemcpyDtoHAsync_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                                    CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  if (!result && ByteCount) result = check_host(dstHost);
  if (!result) result = memory_check(srcDevice, ByteCount);
  return result ? result : download(dstHost, srcDevice, ByteCount, stream, 1);
}

CUresult guest_cuMemcpyDtoH_v2(void *dstHost, CUdeviceptr srcDevice, size_t ByteCount,
                               int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(NULL, per_thread, &stream);
  if (!result && ByteCount) result = check_host(dstHost);
  if (!result) result = memory_check(srcDevice, ByteCount);
  return result ? result : download(dstHost, srcDevice, ByteCount, stream, 0);
}

CUresult guest_cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream,
                             int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  return result
             ? result
             : copy_any((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, ByteCount, stream, 1);
}

CUresult guest_cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(NULL, per_thread, &stream);
  return result
             ? result
             : copy_any((void *)(uintptr_t)dst, (const void *)(uintptr_t)src, ByteCount, stream, 0);
}

// ---- two-dimensional ---------------------------------------------------------------------------

struct plane {
  char *start;  // first byte of the first row
  uint64_t pitch;
};

static CUresult plane_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t x,
                         size_t y, size_t pitch, size_t width, size_t height, struct plane *plane) {
  switch (type) {
    case CU_MEMORYTYPE_HOST:
      plane->start = (char *)host;
      break;
    case CU_MEMORYTYPE_DEVICE:
    case CU_MEMORYTYPE_UNIFIED:
      plane->start = (char *)(uintptr_t)device;
      break;
    default:
      return CUDA_ERROR_NOT_SUPPORTED;
  }
  if (!plane->start) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEMORYTYPE_HOST && memory_is_device(plane->start)) return CUDA_ERROR_INVALID_VALUE;
  if (type == CU_MEMORYTYPE_DEVICE && !memory_is_device(plane->start))
    return CUDA_ERROR_INVALID_VALUE;
  // A pitch of 0 stands for rows without a gap, which a single row does not need.
  plane->pitch = pitch ? pitch : x + width;
  if (height > 1 && plane->pitch < x + width) return CUDA_ERROR_INVALID_VALUE;
  plane->start += y * plane->pitch + x;
  if (!memory_is_device(plane->start)) return CUDA_SUCCESS;
  return memory_check((uint64_t)(uintptr_t)plane->start, span_2d(plane->pitch, height, width));
}

static CUresult copy_2d(const CUDA_MEMCPY2D *p, uint64_t stream, _Bool async) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  uint64_t width = p->WidthInBytes, height = p->Height;
  if (!width || !height) return CUDA_SUCCESS;
  struct plane to, from;
  CUresult result = plane_of(p->dstMemoryType, p->dstHost, p->dstDevice, p->dstXInBytes, p->dstY,
                             p->dstPitch, width, height, &to);
  if (!result)
    result = plane_of(p->srcMemoryType, p->srcHost, p->srcDevice, p->srcXInBytes, p->srcY,
                      p->srcPitch, width, height, &from);
  if (result) return result;
  if (height == 1 || (to.pitch == width && from.pitch == width))
    return copy_any(to.start, from.start, width * height, stream, async);
  _Bool to_device = memory_is_device(to.start), from_device = memory_is_device(from.start);
  if (to_device && from_device)
    return put_Copy2D((uint64_t)(uintptr_t)to.start, to.pitch, (uint64_t)(uintptr_t)from.start,
                      from.pitch, width, height, stream);
  if (!to_device && !from_device) result = wait_for_downloads();
  _Bool deferred = from_device && !to_device && async &&
                   host_is_pinned(to.start, span_2d(to.pitch, height, width));
  for (uint64_t row = 0; row < height && !result; row++) {
    char *destination = to.start + row * to.pitch;
    char *source = from.start + row * from.pitch;
    if (to_device)
      result = upload((uint64_t)(uintptr_t)destination, source, width, stream);
    else if (!from_device)
      memmove(destination, source, width);
    else if (deferred || row + 1 < height)
      // One wait for all rows: answers on one stream come in order, so the last covers the others.
      result = download_defer(destination, (uint64_t)(uintptr_t)source, width, stream);
    else
      result = download_wait(destination, (uint64_t)(uintptr_t)source, width, stream);
  }
  return result;
}

CUresult guest_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(hStream, per_thread, &stream);
  return result ? result : copy_2d(pCopy, stream, 1);
}

CUresult guest_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy, int per_thread) {
  uint64_t stream;
  CUresult result = stream_resolve(NULL, per_thread, &stream);
  return result ? result : copy_2d(pCopy, stream, 0);
}

CUresult guest_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy, int per_thread) {
  return guest_cuMemcpy2D_v2(pCopy, per_thread);
}
