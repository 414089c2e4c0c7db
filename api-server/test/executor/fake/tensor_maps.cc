// Tensor maps, which nothing reads: the address, and what tells one tensor from another.
#include "device.h"
#include "fake_driver.h"

using namespace fake;

namespace {

CUresult encode(CUtensorMap *map, uint32_t kind, const void *address, const cuuint64_t *sizes) {
  if (reinterpret_cast<uint64_t>(address) % 16) return CUDA_ERROR_INVALID_VALUE;
  *map = {};
  map->opaque[3] = reinterpret_cast<uint64_t>(address);
  map->opaque[4] = sizes[0] + kind;
  return CUDA_SUCCESS;
}

}  // namespace

EXPORT CUresult cuTensorMapEncodeTiled(CUtensorMap *map, CUtensorMapDataType, cuuint32_t,
                                       void *address, const cuuint64_t *sizes, const cuuint64_t *,
                                       const cuuint32_t *, const cuuint32_t *,
                                       CUtensorMapInterleave, CUtensorMapSwizzle,
                                       CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  ENTER;
  return encode(map, 1000, address, sizes);
}
EXPORT CUresult cuTensorMapEncodeIm2col(CUtensorMap *map, CUtensorMapDataType, cuuint32_t,
                                        void *address, const cuuint64_t *sizes, const cuuint64_t *,
                                        const int *, const int *, cuuint32_t, cuuint32_t,
                                        const cuuint32_t *, CUtensorMapInterleave,
                                        CUtensorMapSwizzle, CUtensorMapL2promotion,
                                        CUtensorMapFloatOOBfill) {
  ENTER;
  return encode(map, 2000, address, sizes);
}
EXPORT CUresult cuTensorMapReplaceAddress(CUtensorMap *map, void *address) {
  ENTER;
  map->opaque[3] = reinterpret_cast<uint64_t>(address);
  return CUDA_SUCCESS;
}
