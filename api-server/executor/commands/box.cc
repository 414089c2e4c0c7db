#include "commands/box.h"

#include <algorithm>

#include "base/span.h"
#include "session/session.h"

namespace outboard {

namespace {

bool inside(uint64_t begin, uint64_t size, uint64_t extent) {
  return begin <= extent && size <= extent - begin;
}

// A pitch that nothing is done with would only be one to refuse.
uint64_t pitch_of(const BoxEnd &end, const Box &box) {
  return box.height > 1 || box.depth > 1 ? end.y : box.width;
}
uint64_t rows_of(const BoxEnd &end, const Box &box) { return box.depth > 1 ? end.z : box.height; }

void set_source(CUDA_MEMCPY3D &copy, const BoxEnd &from, const Box &box) {
  if (from.array) {
    copy.srcMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.srcArray = from.array;
    copy.srcXInBytes = from.x;
    copy.srcY = from.y;
    copy.srcZ = from.z;
  } else {
    copy.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.srcDevice = from.x;
    copy.srcPitch = pitch_of(from, box);
    copy.srcHeight = rows_of(from, box);
  }
}

void set_destination(CUDA_MEMCPY3D &copy, const BoxEnd &to, const Box &box) {
  if (to.array) {
    copy.dstMemoryType = CU_MEMORYTYPE_ARRAY;
    copy.dstArray = to.array;
    copy.dstXInBytes = to.x;
    copy.dstY = to.y;
    copy.dstZ = to.z;
  } else {
    copy.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    copy.dstDevice = to.x;
    copy.dstPitch = pitch_of(to, box);
    copy.dstHeight = rows_of(to, box);
  }
}

CUDA_MEMCPY3D of_extent(const Box &box) {
  CUDA_MEMCPY3D copy{};
  copy.WidthInBytes = box.width;
  copy.Height = box.height;
  copy.Depth = box.depth;
  return copy;
}

}  // namespace

uint64_t Box::bytes() const { return span_1d(span_1d(width, height), depth); }

bool find_box(Session &s, uint64_t array, uint64_t x, uint64_t y, uint64_t z, const Box &box,
              BoxEnd *end) {
  *end = {nullptr, x, y, z};
  if (array == 0) return s.reachable(x, span_3d(y, z, box.depth, box.height, box.width));
  const Array *found = s.arrays().find(array);
  if (!found || !found->object) return false;
  end->array = found->object;
  return x % found->element == 0 && box.width % found->element == 0 &&
         inside(x, box.width, found->row) && inside(y, box.height, found->rows) &&
         inside(z, box.depth, found->slices);
}

Box part_of(const Box &whole, uint64_t offset, uint64_t most, BoxEnd *end) {
  const uint64_t slice = whole.width * whole.height;
  const uint64_t x = offset % whole.width;
  const uint64_t y = offset / whole.width % whole.height;
  const uint64_t z = offset / slice;
  Box part{whole.width, 1, 1};
  if (x == 0 && y == 0 && slice <= most) {
    part.height = whole.height;
    part.depth = std::min(most / slice, whole.depth - z);
  } else if (x == 0 && whole.width <= most) {
    part.height = std::min(most / whole.width, whole.height - y);
  } else {
    part.width = std::min(most, whole.width - x);
  }
  if (end->array) {
    end->x += x;
    end->y += y;
    end->z += z;
  } else {
    end->x += (z * end->z + y) * end->y + x;
  }
  return part;
}

CUDA_MEMCPY3D to_device(const BoxEnd &to, const void *host, const Box &box) {
  CUDA_MEMCPY3D copy = of_extent(box);
  copy.srcMemoryType = CU_MEMORYTYPE_HOST;
  copy.srcHost = host;
  copy.srcPitch = box.width;
  copy.srcHeight = box.height;
  set_destination(copy, to, box);
  return copy;
}

CUDA_MEMCPY3D to_host(void *host, const BoxEnd &from, const Box &box) {
  CUDA_MEMCPY3D copy = of_extent(box);
  set_source(copy, from, box);
  copy.dstMemoryType = CU_MEMORYTYPE_HOST;
  copy.dstHost = host;
  copy.dstPitch = box.width;
  copy.dstHeight = box.height;
  return copy;
}

CUDA_MEMCPY3D on_device(const BoxEnd &to, const BoxEnd &from, const Box &box) {
  CUDA_MEMCPY3D copy = of_extent(box);
  set_source(copy, from, box);
  set_destination(copy, to, box);
  return copy;
}

}  // namespace outboard
