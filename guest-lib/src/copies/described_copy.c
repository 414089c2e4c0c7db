// Copies that a structure describes: planes, volumes, and the same between contexts.
#include "copies/described_copy.h"

#include "guest_calls.h"
#include "session/context.h"
#include "session/handle.h"
#include "streams/recorder.h"
#include "streams/stream.h"

#define PITCH_MOST 0x7fffffff  // CU_DEVICE_ATTRIBUTE_MAX_PITCH

// One side of a description; all structures have the same.
struct described {
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  CUarray array;
  size_t pitch, rows;  // 0: as the box has them
  size_t x, y, z;
};

static CUresult read_end(const struct described *of, const struct box *box, struct box_end *end) {
  if (of->type == CU_MEMORYTYPE_ARRAY)
    return box_in_array(of->array, of->x, of->y, of->z, box, end);
  if (of->type != CU_MEMORYTYPE_HOST && of->type != CU_MEMORYTYPE_DEVICE &&
      of->type != CU_MEMORYTYPE_UNIFIED)
    return CUDA_ERROR_INVALID_VALUE;
  size_t pitch = of->pitch, rows = of->rows;
  _Bool many = box->height > 1 || box->depth > 1;
  if (many && pitch && (pitch < box->width || pitch - box->width < of->x || pitch > PITCH_MOST))
    return CUDA_ERROR_INVALID_VALUE;
  if (box->depth > 1 && rows && (rows < box->height || rows - box->height < of->y))
    return CUDA_ERROR_INVALID_VALUE;
  if (!pitch) pitch = box->width;
  if (!rows) rows = box->height;
  size_t slice;
  if (__builtin_mul_overflow(pitch, rows, &slice)) return CUDA_ERROR_INVALID_VALUE;
  uint64_t base =
      of->type == CU_MEMORYTYPE_HOST ? (uint64_t)(uintptr_t)of->host : (uint64_t)of->device;
  unsigned __int128 at = (unsigned __int128)base + of->x + (unsigned __int128)of->y * pitch +
                         (unsigned __int128)of->z * slice;
  if (at > UINT64_MAX) return CUDA_ERROR_INVALID_VALUE;
  *end = (struct box_end){.place = of->type == CU_MEMORYTYPE_HOST     ? BOX_HOST
                                   : of->type == CU_MEMORYTYPE_DEVICE ? BOX_DEVICE
                                                                      : BOX_EITHER,
                          .address = base ? (uint64_t)at : 0,
                          .pitch = pitch,
                          .rows = rows};
  return CUDA_SUCCESS;
}

static CUresult read_ends(const struct described *to, const struct described *from,
                          struct copy *copy) {
  CUresult result = read_end(to, &copy->box, &copy->to);
  return result ? result : read_end(from, &copy->box, &copy->from);
}

static CUresult copy_plane(const CUDA_MEMCPY2D *p, CUstream handle, int per_thread, _Bool async) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  struct copy copy = {.box = {p->WidthInBytes, p->Height, 1}, .async = async};
  const struct described to = {p->dstMemoryType, p->dstHost,  p->dstDevice,
                               p->dstArray,      p->dstPitch, 0,
                               p->dstXInBytes,   p->dstY,     0};
  const struct described from = {p->srcMemoryType, p->srcHost,  p->srcDevice,
                                 p->srcArray,      p->srcPitch, 0,
                                 p->srcXInBytes,   p->srcY,     0};
  CUresult result = stream_for_work(handle, per_thread, &copy.stream);
  if (!result) result = read_ends(&to, &from, &copy);
  return result ? result : copy_make(&copy);
}

CUresult copy_described(const CUDA_MEMCPY3D *p, struct copy *copy) {
  if (p->srcLOD || p->dstLOD) return CUDA_ERROR_INVALID_VALUE;
  copy->box = (struct box){p->WidthInBytes, p->Height, p->Depth};
  const struct described to = {p->dstMemoryType, p->dstHost,  p->dstDevice,
                               p->dstArray,      p->dstPitch, p->dstHeight,
                               p->dstXInBytes,   p->dstY,     p->dstZ};
  const struct described from = {p->srcMemoryType, p->srcHost,  p->srcDevice,
                                 p->srcArray,      p->srcPitch, p->srcHeight,
                                 p->srcXInBytes,   p->srcY,     p->srcZ};
  return read_ends(&to, &from, copy);
}

static CUresult copy_volume(const CUDA_MEMCPY3D *p, CUstream handle, int per_thread, _Bool async) {
  if (!p) return CUDA_ERROR_INVALID_VALUE;
  struct copy copy = {.async = async};
  CUresult result = stream_for_work(handle, per_thread, &copy.stream);
  if (!result) result = copy_described(p, &copy);
  return result ? result : copy_make(&copy);
}

// The same structure with contexts where the other has what is reserved.
_Static_assert(sizeof(CUDA_MEMCPY3D) == sizeof(CUDA_MEMCPY3D_PEER) &&
                   offsetof(CUDA_MEMCPY3D, reserved0) == offsetof(CUDA_MEMCPY3D_PEER, srcContext) &&
                   offsetof(CUDA_MEMCPY3D, reserved1) == offsetof(CUDA_MEMCPY3D_PEER, dstContext) &&
                   offsetof(CUDA_MEMCPY3D, Depth) == offsetof(CUDA_MEMCPY3D_PEER, Depth),
               "both describe a volume alike");

// Synchronous copies between contexts name them. Those of one session are one on the server, so the
// order is that of its default stream.
static CUresult check_contexts(CUcontext one, CUcontext other) {
  if (handle_check(WIRE_KIND_CONTEXT, handle_of(one)) ||
      handle_check(WIRE_KIND_CONTEXT, handle_of(other)))
    return CUDA_ERROR_INVALID_CONTEXT;
  return CUDA_SUCCESS;
}

// A copy that is waited for comes behind all that both have on their legacy streams.
static CUresult check_wait(CUcontext one, CUcontext other) {
  CUresult result = check_contexts(one, other);
  const uint64_t contexts[2] = {handle_of(one), handle_of(other)};
  for (int i = 0; i < 2 && !result && capture_active(); i++)
    if (contexts[i] != context_current_handle()) result = recorder->check_legacy_wait(contexts[i]);
  return result;
}

// ---- entry points ------------------------------------------------------------------------------

CUresult guest_cuMemcpy2D_v2(const CUDA_MEMCPY2D *pCopy, int per_thread) {
  return copy_plane(pCopy, NULL, per_thread, 0);
}
CUresult guest_cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *pCopy, int per_thread) {
  return copy_plane(pCopy, NULL, per_thread, 0);
}
CUresult guest_cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *pCopy, CUstream hStream, int per_thread) {
  return copy_plane(pCopy, hStream, per_thread, 1);
}

CUresult guest_cuMemcpy3D_v2(const CUDA_MEMCPY3D *pCopy, int per_thread) {
  return copy_volume(pCopy, NULL, per_thread, 0);
}
CUresult guest_cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *pCopy, CUstream hStream, int per_thread) {
  return copy_volume(pCopy, hStream, per_thread, 1);
}

CUresult guest_cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *pCopy, int per_thread) {
  if (!pCopy) return CUDA_ERROR_INVALID_VALUE;
  CUresult result = check_wait(pCopy->dstContext, pCopy->srcContext);
  return result ? result : copy_volume((const CUDA_MEMCPY3D *)pCopy, NULL, per_thread, 0);
}
CUresult guest_cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *pCopy, CUstream hStream,
                                   int per_thread) {
  return copy_volume((const CUDA_MEMCPY3D *)pCopy, hStream, per_thread, 1);
}

static CUresult copy_line(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream handle,
                          int per_thread, _Bool async) {
  struct copy copy = {.to = box_row_at(BOX_DEVICE, to, bytes),
                      .from = box_row_at(BOX_DEVICE, from, bytes),
                      .box = box_row(bytes),
                      .async = async};
  CUresult result = stream_for_work(handle, per_thread, &copy.stream);
  return result ? result : copy_make(&copy);
}

CUresult guest_cuMemcpyPeer(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                            CUcontext srcContext, size_t ByteCount, int per_thread) {
  CUresult result = check_wait(dstContext, srcContext);
  return result ? result : copy_line(dstDevice, srcDevice, ByteCount, NULL, per_thread, 0);
}
CUresult guest_cuMemcpyPeerAsync(CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
                                 CUcontext srcContext, size_t ByteCount, CUstream hStream,
                                 int per_thread) {
  (void)dstContext, (void)srcContext;
  return copy_line(dstDevice, srcDevice, ByteCount, hStream, per_thread, 1);
}
