// Entry points: copies.
#include "entry/entry.h"
#include "streams/transfer.h"

using namespace softdev::driver;

namespace {

struct Linear {
  uint64_t to;
  Side to_side;
  uint64_t from;
  Side from_side;
  size_t size;
};

CUresult linear(const Linear &what, CUstream handle, Default null, bool asynchronous) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  return guarded([&] {
    return copy(stream, {what.to, what.size, what.size, what.to_side},
                {what.from, what.size, what.size, what.from_side}, {what.size, 1, 1}, asynchronous);
  });
}

CUresult host_to_device(CUdeviceptr to, const void *from, size_t size, CUstream stream,
                        Default null, bool asynchronous) {
  return linear({to, Side::kDevice, address_of(from), Side::kHost, size}, stream, null,
                asynchronous);
}

CUresult device_to_host(void *to, CUdeviceptr from, size_t size, CUstream stream, Default null,
                        bool asynchronous) {
  return linear({address_of(to), Side::kHost, from, Side::kDevice, size}, stream, null,
                asynchronous);
}

CUresult device_to_device(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream,
                          Default null, bool asynchronous) {
  return linear({to, Side::kDevice, from, Side::kDevice, size}, stream, null, asynchronous);
}

CUresult either(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream, Default null,
                bool asynchronous) {
  return linear({to, Side::kEither, from, Side::kEither, size}, stream, null, asynchronous);
}

// One end of a 2D or 3D copy as the structures have it. False for arrays.
bool end_of(CUmemorytype type, const void *host, CUdeviceptr device, size_t pitch, size_t rows,
            size_t x, size_t y, size_t z, const Box &box, End *end) {
  if (type == CU_MEMORYTYPE_ARRAY) return false;
  if (pitch == 0) pitch = box.width;
  end->pitch = pitch;
  end->slice = pitch * (rows ? rows : box.height);
  end->side = type == CU_MEMORYTYPE_HOST     ? Side::kHost
              : type == CU_MEMORYTYPE_DEVICE ? Side::kDevice
                                             : Side::kEither;
  uint64_t base = type == CU_MEMORYTYPE_HOST ? address_of(host) : device;
  end->address = base ? base + x + y * pitch + z * end->slice : 0;
  return true;
}

CUresult boxed(const End &to, const End &from, const Box &box, CUstream handle, Default null,
               bool asynchronous) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  return guarded([&] { return copy(stream, to, from, box, asynchronous); });
}

CUresult plane(const CUDA_MEMCPY2D *what, CUstream handle, Default null, bool asynchronous) {
  if (!what) return CUDA_ERROR_INVALID_VALUE;
  Box box{what->WidthInBytes, what->Height, 1};
  End to, from;
  if (!end_of(what->dstMemoryType, what->dstHost, what->dstDevice, what->dstPitch, 0,
              what->dstXInBytes, what->dstY, 0, box, &to) ||
      !end_of(what->srcMemoryType, what->srcHost, what->srcDevice, what->srcPitch, 0,
              what->srcXInBytes, what->srcY, 0, box, &from))
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "arrays are not supported");
  return boxed(to, from, box, handle, null, asynchronous);
}

// CUDA_MEMCPY3D and CUDA_MEMCPY3D_PEER have the same names for the same things.
template <class Structure>
CUresult space(const Structure *what, CUstream handle, Default null, bool asynchronous) {
  if (!what) return CUDA_ERROR_INVALID_VALUE;
  if (what->srcLOD || what->dstLOD) return CUDA_ERROR_INVALID_VALUE;
  Box box{what->WidthInBytes, what->Height, what->Depth};
  if ((what->srcHeight && what->srcHeight < what->Height + what->srcY && what->Depth > 1) ||
      (what->dstHeight && what->dstHeight < what->Height + what->dstY && what->Depth > 1))
    return refuse(CUDA_ERROR_INVALID_VALUE, "a slice has fewer rows than are copied");
  End to, from;
  if (!end_of(what->dstMemoryType, what->dstHost, what->dstDevice, what->dstPitch, what->dstHeight,
              what->dstXInBytes, what->dstY, what->dstZ, box, &to) ||
      !end_of(what->srcMemoryType, what->srcHost, what->srcDevice, what->srcPitch, what->srcHeight,
              what->srcXInBytes, what->srcY, what->srcZ, box, &from))
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "arrays are not supported");
  return boxed(to, from, box, handle, null, asynchronous);
}

}  // namespace

extern "C" {

#define LEGACY nullptr, Default::kLegacy, false
#define PER_THREAD nullptr, Default::kPerThread, false

CUresult cuMemcpyHtoD_v2(CUdeviceptr to, const void *from, size_t size) {
  return host_to_device(to, from, size, LEGACY);
}
CUresult cuMemcpyHtoD_v2_ptds(CUdeviceptr to, const void *from, size_t size) {
  return host_to_device(to, from, size, PER_THREAD);
}
CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
  return host_to_device(to, from, size, stream, Default::kLegacy, true);
}
CUresult cuMemcpyHtoDAsync_v2_ptsz(CUdeviceptr to, const void *from, size_t size, CUstream stream) {
  return host_to_device(to, from, size, stream, Default::kPerThread, true);
}
CUresult cuMemcpyDtoH_v2(void *to, CUdeviceptr from, size_t size) {
  return device_to_host(to, from, size, LEGACY);
}
CUresult cuMemcpyDtoH_v2_ptds(void *to, CUdeviceptr from, size_t size) {
  return device_to_host(to, from, size, PER_THREAD);
}
CUresult cuMemcpyDtoHAsync_v2(void *to, CUdeviceptr from, size_t size, CUstream stream) {
  return device_to_host(to, from, size, stream, Default::kLegacy, true);
}
CUresult cuMemcpyDtoHAsync_v2_ptsz(void *to, CUdeviceptr from, size_t size, CUstream stream) {
  return device_to_host(to, from, size, stream, Default::kPerThread, true);
}
CUresult cuMemcpyDtoD_v2(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return device_to_device(to, from, size, LEGACY);
}
CUresult cuMemcpyDtoD_v2_ptds(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return device_to_device(to, from, size, PER_THREAD);
}
CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return device_to_device(to, from, size, stream, Default::kLegacy, true);
}
CUresult cuMemcpyDtoDAsync_v2_ptsz(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return device_to_device(to, from, size, stream, Default::kPerThread, true);
}
CUresult cuMemcpy(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return either(to, from, size, LEGACY);
}
CUresult cuMemcpy_ptds(CUdeviceptr to, CUdeviceptr from, size_t size) {
  return either(to, from, size, PER_THREAD);
}
CUresult cuMemcpyAsync(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return either(to, from, size, stream, Default::kLegacy, true);
}
CUresult cuMemcpyAsync_ptsz(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream) {
  return either(to, from, size, stream, Default::kPerThread, true);
}

// All devices share one address space, so the contexts need not be looked at.
CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size) {
  return device_to_device(to, from, size, LEGACY);
}
CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size) {
  return device_to_device(to, from, size, PER_THREAD);
}
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size,
                           CUstream stream) {
  return device_to_device(to, from, size, stream, Default::kLegacy, true);
}
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size,
                                CUstream stream) {
  return device_to_device(to, from, size, stream, Default::kPerThread, true);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *what) { return plane(what, LEGACY); }
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *what) { return plane(what, PER_THREAD); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *what) { return plane(what, LEGACY); }
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *what) { return plane(what, PER_THREAD); }
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *what, CUstream stream) {
  return plane(what, stream, Default::kLegacy, true);
}
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *what, CUstream stream) {
  return plane(what, stream, Default::kPerThread, true);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *what) { return space(what, LEGACY); }
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *what) { return space(what, PER_THREAD); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *what, CUstream stream) {
  return space(what, stream, Default::kLegacy, true);
}
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *what, CUstream stream) {
  return space(what, stream, Default::kPerThread, true);
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *what) { return space(what, LEGACY); }
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *what) { return space(what, PER_THREAD); }
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *what, CUstream stream) {
  return space(what, stream, Default::kLegacy, true);
}
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *what, CUstream stream) {
  return space(what, stream, Default::kPerThread, true);
}

}  // extern "C"
