#include "streams/described_copy.h"

#include "core/log.h"
#include "textures/array.h"

namespace softdev::driver {
namespace {

constexpr size_t kMostPitch = 0x7FFFFFFF;  // CU_DEVICE_ATTRIBUTE_MAX_PITCH

// One side of a description; all structures have the same.
struct Described {
  CUmemorytype type;
  const void *host;
  CUdeviceptr device;
  CUarray array;
  size_t pitch, rows;  // 0: as the box has them
  size_t x, y, z;
};

CUresult read_end(const Described &what, const Box &box, End *end) {
  if (what.type == CU_MEMORYTYPE_ARRAY)
    return array_end(what.array, what.x, what.y, what.z, box, end);
  if (what.type != CU_MEMORYTYPE_HOST && what.type != CU_MEMORYTYPE_DEVICE &&
      what.type != CU_MEMORYTYPE_UNIFIED)
    return refuse(CUDA_ERROR_INVALID_VALUE, "%d is no type of memory", what.type);
  size_t pitch = what.pitch, rows = what.rows;
  const bool many = box.height > 1 || box.depth > 1;
  if (pitch && many && (pitch < box.width || pitch - box.width < what.x))
    return refuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes from byte %zu are more than a pitch of %zu",
                  box.width, what.x, pitch);
  if (pitch > kMostPitch && many)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a pitch of %zu is larger than allowed", pitch);
  if (rows && box.depth > 1 && (rows < box.height || rows - box.height < what.y))
    return refuse(CUDA_ERROR_INVALID_VALUE, "a slice has fewer rows than are copied");
  if (pitch == 0) pitch = box.width;
  if (rows == 0) rows = box.height;
  if (pitch && rows > SIZE_MAX / pitch)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a slice is too large");
  end->pitch = pitch;
  end->slice = pitch * rows;
  end->side = what.type == CU_MEMORYTYPE_HOST     ? Side::kHost
              : what.type == CU_MEMORYTYPE_DEVICE ? Side::kDevice
                                                  : Side::kEither;
  uint64_t base =
      what.type == CU_MEMORYTYPE_HOST ? reinterpret_cast<uint64_t>(what.host) : what.device;
  const unsigned __int128 at = static_cast<unsigned __int128>(base) + what.x +
                               static_cast<unsigned __int128>(what.y) * pitch +
                               static_cast<unsigned __int128>(what.z) * end->slice;
  if (at > UINT64_MAX) return refuse(CUDA_ERROR_INVALID_VALUE, "an offset is out of range");
  end->address = base ? static_cast<uint64_t>(at) : 0;
  return CUDA_SUCCESS;
}

template <class Structure>
CUresult read_space(const Structure &what, DescribedCopy *copy) {
  if (what.srcLOD || what.dstLOD)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the levels of a copy must be 0");
  copy->box = {what.WidthInBytes, what.Height, what.Depth};
  if (CUresult bad =
          read_end({what.dstMemoryType, what.dstHost, what.dstDevice, what.dstArray, what.dstPitch,
                    what.dstHeight, what.dstXInBytes, what.dstY, what.dstZ},
                   copy->box, &copy->to))
    return bad;
  return read_end({what.srcMemoryType, what.srcHost, what.srcDevice, what.srcArray, what.srcPitch,
                   what.srcHeight, what.srcXInBytes, what.srcY, what.srcZ},
                  copy->box, &copy->from);
}

}  // namespace

CUresult read_copy(const CUDA_MEMCPY2D &what, DescribedCopy *copy) {
  copy->box = {what.WidthInBytes, what.Height, 1};
  if (CUresult bad = read_end({what.dstMemoryType, what.dstHost, what.dstDevice, what.dstArray,
                               what.dstPitch, 0, what.dstXInBytes, what.dstY, 0},
                              copy->box, &copy->to))
    return bad;
  return read_end({what.srcMemoryType, what.srcHost, what.srcDevice, what.srcArray, what.srcPitch,
                   0, what.srcXInBytes, what.srcY, 0},
                  copy->box, &copy->from);
}

CUresult read_copy(const CUDA_MEMCPY3D &what, DescribedCopy *copy) {
  return read_space(what, copy);
}

CUresult read_copy(const CUDA_MEMCPY3D_PEER &what, DescribedCopy *copy) {
  return read_space(what, copy);
}

}  // namespace softdev::driver
