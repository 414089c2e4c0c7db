// Entry points: memsets.
#include "entry/entry.h"
#include "streams/transfer.h"

using namespace softdev::driver;

namespace {

// `unit` is the size of the pattern; `width` counts patterns.
CUresult set(CUdeviceptr to, size_t pitch, uint32_t pattern, unsigned unit, size_t width,
             size_t height, CUstream handle, Default null, bool asynchronous) {
  StreamRef stream;
  if (CUresult bad = find_stream(handle, null, &stream)) return bad;
  if (width > SIZE_MAX / unit) return CUDA_ERROR_INVALID_VALUE;
  width *= unit;
  if (height <= 1) pitch = width;  // it is of no use then
  return guarded([&] {
    return fill(stream, {to, pitch, pitch * height, Side::kDevice}, {width, height, 1}, pattern,
                unit, asynchronous);
  });
}

}  // namespace

extern "C" {

// The four names of each width: synchronous and not, in either default stream; and the same for
// rows that lie apart.
#define SETS(bits, type, plain, plain_ptds)                                                      \
  CUresult plain(CUdeviceptr to, type value, size_t count) {                                     \
    return set(to, 0, value, bits / 8, count, 1, nullptr, Default::kLegacy, false);              \
  }                                                                                              \
  CUresult plain_ptds(CUdeviceptr to, type value, size_t count) {                                \
    return set(to, 0, value, bits / 8, count, 1, nullptr, Default::kPerThread, false);           \
  }                                                                                              \
  CUresult cuMemsetD##bits##Async(CUdeviceptr to, type value, size_t count, CUstream stream) {   \
    return set(to, 0, value, bits / 8, count, 1, stream, Default::kLegacy, true);                \
  }                                                                                              \
  CUresult cuMemsetD##bits##Async_ptsz(CUdeviceptr to, type value, size_t count,                 \
                                       CUstream stream) {                                        \
    return set(to, 0, value, bits / 8, count, 1, stream, Default::kPerThread, true);             \
  }                                                                                              \
  CUresult cuMemsetD2D##bits##_v2(CUdeviceptr to, size_t pitch, type value, size_t width,        \
                                  size_t height) {                                               \
    return set(to, pitch, value, bits / 8, width, height, nullptr, Default::kLegacy, false);     \
  }                                                                                              \
  CUresult cuMemsetD2D##bits##_v2_ptds(CUdeviceptr to, size_t pitch, type value, size_t width,   \
                                       size_t height) {                                          \
    return set(to, pitch, value, bits / 8, width, height, nullptr, Default::kPerThread, false);  \
  }                                                                                              \
  CUresult cuMemsetD2D##bits##Async(CUdeviceptr to, size_t pitch, type value, size_t width,      \
                                    size_t height, CUstream stream) {                            \
    return set(to, pitch, value, bits / 8, width, height, stream, Default::kLegacy, true);       \
  }                                                                                              \
  CUresult cuMemsetD2D##bits##Async_ptsz(CUdeviceptr to, size_t pitch, type value, size_t width, \
                                         size_t height, CUstream stream) {                       \
    return set(to, pitch, value, bits / 8, width, height, stream, Default::kPerThread, true);    \
  }

SETS(8, unsigned char, cuMemsetD8_v2, cuMemsetD8_v2_ptds)
SETS(16, unsigned short, cuMemsetD16_v2, cuMemsetD16_v2_ptds)
SETS(32, unsigned int, cuMemsetD32_v2, cuMemsetD32_v2_ptds)

}  // extern "C"
