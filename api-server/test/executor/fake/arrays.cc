// Arrays, which lie row behind row in memory of the process, and copies of boxes.
#include "device.h"

using namespace fake;

struct CUarray_st {
  uint64_t row, rows, slices;
  std::vector<uint8_t> bytes;
};
struct CUmipmappedArray_st {
  std::vector<CUarray> levels;
};

namespace {

std::set<CUarray> &arrays = *new std::set<CUarray>;

size_t element_of(const CUDA_ARRAY3D_DESCRIPTOR &of) {
  return (of.Format == CU_AD_FORMAT_UNSIGNED_INT8 ? 1 : 4) * of.NumChannels;
}

CUarray make(const CUDA_ARRAY3D_DESCRIPTOR &of, unsigned level) {
  const auto extent = [level](size_t size) { return std::max<size_t>(size >> level, 1); };
  auto *array =
      new CUarray_st{extent(of.Width) * element_of(of), extent(of.Height), extent(of.Depth), {}};
  array->bytes.resize(array->row * array->rows * array->slices);
  memory_used += array->bytes.size();
  arrays.insert(array);
  return array;
}

CUresult destroy(CUarray array) {
  if (!arrays.erase(array)) return CUDA_ERROR_INVALID_HANDLE;
  for (uint8_t byte : array->bytes) {
    if (byte == 0) continue;
    dirty++;
    break;
  }
  memory_used -= array->bytes.size();
  delete array;
  return CUDA_SUCCESS;
}

// A row of one side; null when the copy leaves it.
uint8_t *row_at(CUmemorytype type, const void *host, uint64_t device, CUarray array, size_t pitch,
                size_t rows, size_t x, size_t y, size_t z, size_t width) {
  if (type == CU_MEMORYTYPE_ARRAY) {
    if (!arrays.count(array) || x + width > array->row || y >= array->rows || z >= array->slices) {
      return nullptr;
    }
    return array->bytes.data() + (z * array->rows + y) * array->row + x;
  }
  const uint64_t beyond = (z * rows + y) * pitch + x;
  if (type == CU_MEMORYTYPE_HOST) {
    return static_cast<uint8_t *>(const_cast<void *>(host)) + beyond;
  }
  return touch(device + beyond, width) ? static_cast<uint8_t *>(at(device + beyond)) : nullptr;
}

// As drivers: rows and slices do not lie on one another, and nothing is copied without end.
bool is_volume(const CUDA_MEMCPY3D &c) {
  const auto apart = [&](CUmemorytype type, size_t pitch, size_t rows) {
    return type == CU_MEMORYTYPE_ARRAY || ((c.Height <= 1 || pitch >= c.WidthInBytes) &&
                                           (c.Depth <= 1 || (rows >= c.Height && pitch != 0)));
  };
  return apart(c.srcMemoryType, c.srcPitch, c.srcHeight) &&
         apart(c.dstMemoryType, c.dstPitch, c.dstHeight);
}

}  // namespace

namespace fake {

void copy_volume(const CUDA_MEMCPY3D &c) {
  if (!is_volume(c) || c.WidthInBytes == 0) return;
  for (size_t z = 0; z < c.Depth; z++) {
    for (size_t y = 0; y < c.Height; y++) {
      uint8_t *to = row_at(c.dstMemoryType, c.dstHost, c.dstDevice, c.dstArray, c.dstPitch,
                           c.dstHeight, c.dstXInBytes, c.dstY + y, c.dstZ + z, c.WidthInBytes);
      const uint8_t *from =
          row_at(c.srcMemoryType, c.srcHost, c.srcDevice, c.srcArray, c.srcPitch, c.srcHeight,
                 c.srcXInBytes, c.srcY + y, c.srcZ + z, c.WidthInBytes);
      if (!to || !from) return;
      memmove(to, from, c.WidthInBytes);
    }
  }
}

}  // namespace fake

EXPORT CUresult cuArray3DCreate_v2(CUarray *array, const CUDA_ARRAY3D_DESCRIPTOR *of) {
  ENTER;
  *array = make(*of, 0);
  return CUDA_SUCCESS;
}
EXPORT CUresult cuArrayDestroy(CUarray array) {
  ENTER;
  return destroy(array);
}
EXPORT CUresult cuMipmappedArrayCreate(CUmipmappedArray *array, const CUDA_ARRAY3D_DESCRIPTOR *of,
                                       unsigned levels) {
  ENTER;
  *array = new CUmipmappedArray_st;
  for (unsigned i = 0; i < levels; i++) (*array)->levels.push_back(make(*of, i));
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMipmappedArrayGetLevel(CUarray *level, CUmipmappedArray array, unsigned index) {
  ENTER;
  if (index >= array->levels.size()) return CUDA_ERROR_INVALID_VALUE;
  *level = array->levels[index];
  return CUDA_SUCCESS;
}
EXPORT CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  ENTER;
  for (CUarray level : array->levels) destroy(level);
  delete array;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuMemcpy3DAsync_v2(const CUDA_MEMCPY3D *given, CUstream stream) {
  ENTER;
  if (!is_volume(*given)) return CUDA_ERROR_INVALID_VALUE;
  const CUDA_MEMCPY3D c = *given;
  return queue(stream, [c] { copy_volume(c); });
}
