// Entry points: copies.
#include "entry/entry.h"
#include "streams/described_copy.h"

using namespace softdev::driver;

namespace {

struct LinearCopy {
  uint64_t to;
  Side to_side;
  uint64_t from;
  Side from_side;
  size_t size;
};

CUresult linear_copy(const LinearCopy &what, CUstream handle, Default null, bool asynchronous) {
  StreamRef stream;
  if (CUresult bad = find_for_transfer(handle, null, asynchronous, &stream)) return bad;
  return guarded([&] {
    return copy(stream, {what.to, what.size, what.size, what.to_side},
                {what.from, what.size, what.size, what.from_side}, {what.size, 1, 1}, asynchronous);
  });
}

CUresult host_to_device(CUdeviceptr to, const void *from, size_t size, CUstream stream,
                        Default null, bool asynchronous) {
  return linear_copy({to, Side::kDevice, address_of(from), Side::kHost, size}, stream, null,
                     asynchronous);
}

CUresult device_to_host(void *to, CUdeviceptr from, size_t size, CUstream stream, Default null,
                        bool asynchronous) {
  return linear_copy({address_of(to), Side::kHost, from, Side::kDevice, size}, stream, null,
                     asynchronous);
}

CUresult device_to_device(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream,
                          Default null, bool asynchronous) {
  return linear_copy({to, Side::kDevice, from, Side::kDevice, size}, stream, null, asynchronous);
}

CUresult either(CUdeviceptr to, CUdeviceptr from, size_t size, CUstream stream, Default null,
                bool asynchronous) {
  return linear_copy({to, Side::kEither, from, Side::kEither, size}, stream, null, asynchronous);
}

template <class Structure>
CUresult described(const Structure *what, CUstream handle, Default null, bool asynchronous) {
  if (!what) return CUDA_ERROR_INVALID_VALUE;
  StreamRef stream;
  if (CUresult bad = find_for_transfer(handle, null, asynchronous, &stream)) return bad;
  DescribedCopy of;
  if (CUresult bad = read_copy(*what, &of)) return bad;
  return guarded([&] { return copy(stream, of.to, of.from, of.box, asynchronous); });
}

// A copy between contexts comes after all work that both have, and before all that they get: what
// their default streams promise within one context. Those know nothing of each other, so it is
// waited for.
template <class Copy>
CUresult between(CUcontext one, CUcontext other, Default null, Copy copy) {
  StreamRef stream;
  if (CUresult bad = find_stream(nullptr, null, &stream)) return bad;
  bool elsewhere = false;
  for (CUcontext handle : {one, other}) {
    auto context = driver()->handles.find<Context>(handle);
    if (!context || !context->active())
      return refuse(CUDA_ERROR_INVALID_CONTEXT, "%p is no context", (void *)handle);
    if (context == stream.context) continue;
    elsewhere = true;
    if (CUresult bad = synchronise(StreamRef{context->legacy_stream(), context})) return bad;
  }
  CUresult result = copy();
  return result == CUDA_SUCCESS && elsewhere ? synchronise(stream) : result;
}

CUresult peer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from, CUcontext from_context,
              size_t size, Default null) {
  return guarded([&] {
    return between(to_context, from_context, null,
                   [&] { return device_to_device(to, from, size, nullptr, null, false); });
  });
}

CUresult peer_box(const CUDA_MEMCPY3D_PEER *what, Default null) {
  if (!what) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    return between(what->dstContext, what->srcContext, null,
                   [&] { return described(what, nullptr, null, false); });
  });
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

CUresult cuMemcpyPeer(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                      CUcontext from_context, size_t size) {
  return peer(to, to_context, from, from_context, size, Default::kLegacy);
}
CUresult cuMemcpyPeer_ptds(CUdeviceptr to, CUcontext to_context, CUdeviceptr from,
                           CUcontext from_context, size_t size) {
  return peer(to, to_context, from, from_context, size, Default::kPerThread);
}
// The stream gives the order, and the addresses say whose memory it is.
CUresult cuMemcpyPeerAsync(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size,
                           CUstream stream) {
  return device_to_device(to, from, size, stream, Default::kLegacy, true);
}
CUresult cuMemcpyPeerAsync_ptsz(CUdeviceptr to, CUcontext, CUdeviceptr from, CUcontext, size_t size,
                                CUstream stream) {
  return device_to_device(to, from, size, stream, Default::kPerThread, true);
}

CUresult cuMemcpy2D_v2(const CUDA_MEMCPY2D *what) { return described(what, LEGACY); }
CUresult cuMemcpy2D_v2_ptds(const CUDA_MEMCPY2D *what) { return described(what, PER_THREAD); }
CUresult cuMemcpy2DUnaligned_v2(const CUDA_MEMCPY2D *what) { return described(what, LEGACY); }
CUresult cuMemcpy2DUnaligned_v2_ptds(const CUDA_MEMCPY2D *what) {
  return described(what, PER_THREAD);
}
CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *what, CUstream stream) {
  return described(what, stream, Default::kLegacy, true);
}
CUresult cuMemcpy2DAsync_v2_ptsz(const CUDA_MEMCPY2D *what, CUstream stream) {
  return described(what, stream, Default::kPerThread, true);
}
CUresult cuMemcpy3D_v2(const CUDA_MEMCPY3D *what) { return described(what, LEGACY); }
CUresult cuMemcpy3D_v2_ptds(const CUDA_MEMCPY3D *what) { return described(what, PER_THREAD); }
CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *what, CUstream stream) {
  return described(what, stream, Default::kLegacy, true);
}
CUresult cuMemcpy3DAsync_v2_ptsz(const CUDA_MEMCPY3D *what, CUstream stream) {
  return described(what, stream, Default::kPerThread, true);
}
CUresult cuMemcpy3DPeer(const CUDA_MEMCPY3D_PEER *what) { return peer_box(what, Default::kLegacy); }
CUresult cuMemcpy3DPeer_ptds(const CUDA_MEMCPY3D_PEER *what) {
  return peer_box(what, Default::kPerThread);
}
CUresult cuMemcpy3DPeerAsync(const CUDA_MEMCPY3D_PEER *what, CUstream stream) {
  return described(what, stream, Default::kLegacy, true);
}
CUresult cuMemcpy3DPeerAsync_ptsz(const CUDA_MEMCPY3D_PEER *what, CUstream stream) {
  return described(what, stream, Default::kPerThread, true);
}

}  // extern "C"

#undef LEGACY
#undef PER_THREAD
