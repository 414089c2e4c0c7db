// Entry points: copies of bytes in a row to and from arrays.
#include <algorithm>

#include "entry/entry.h"
#include "textures/array.h"

using namespace softdev::driver;

namespace {

// A part of a copy: `bytes` from here on lie in a box of the array.
struct Part {
  size_t x, y, z;
  Box box;
};

// What can be copied at once from byte `offset` of an array on, whose rows count without the space
// between them.
CUresult next_part(CUarray handle, size_t offset, size_t bytes, Part *part) {
  auto array = driver()->handles.find<Array>(handle);
  if (!array) return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no array", (void *)handle);
  const CUDA_ARRAY3D_DESCRIPTOR &of = array->shape.descriptor;
  const size_t row = of.Width * array->shape.format.element;
  const size_t rows = of.Height ? of.Height : 1, slices = of.Depth ? of.Depth : 1;
  *part = {offset % row, offset / row % rows, offset / row / rows, {}};
  if (part->x == 0 && part->y == 0 && bytes >= row * rows) {
    // What lies behind the end fails when its turn comes, not before.
    const size_t whole = bytes / (row * rows);
    part->box = {row, rows, part->z < slices ? std::min(whole, slices - part->z) : whole};
  } else if (part->x == 0 && bytes >= row) {
    size_t whole = bytes / row;
    part->box = {row, whole < rows - part->y ? whole : rows - part->y, 1};
  } else {
    part->box = {bytes < row - part->x ? bytes : row - part->x, 1, 1};
  }
  return CUDA_SUCCESS;
}

struct Linear {
  CUarray array;
  size_t offset;
  uint64_t other;
  Side side;
  bool to_array;
};

CUresult linear(Linear what, size_t size, CUstream handle, Default null, bool asynchronous) {
  StreamRef stream;
  if (CUresult bad = find_for_transfer(handle, null, asynchronous, &stream)) return bad;
  if (!driver()->handles.find<Array>(what.array))
    return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no array", (void *)what.array);
  return guarded([&]() -> CUresult {
    while (size) {
      Part part;
      End in_array;
      if (CUresult bad = next_part(what.array, what.offset, size, &part)) return bad;
      if (CUresult bad = array_end(what.array, part.x, part.y, part.z, part.box, &in_array))
        return bad;
      const size_t slice = part.box.width * part.box.height, bytes = slice * part.box.depth;
      const End other{what.other, part.box.width, slice, what.side};
      const End &to = what.to_array ? in_array : other, &from = what.to_array ? other : in_array;
      if (CUresult bad = copy(stream, to, from, part.box, asynchronous)) return bad;
      what.offset += bytes;
      what.other += bytes;
      size -= bytes;
    }
    return CUDA_SUCCESS;
  });
}

CUresult to_array(CUarray array, size_t offset, uint64_t from, Side side, size_t size,
                  CUstream stream, Default null, bool asynchronous) {
  return linear({array, offset, from, side, true}, size, stream, null, asynchronous);
}
CUresult from_array(uint64_t to, Side side, CUarray array, size_t offset, size_t size,
                    CUstream stream, Default null, bool asynchronous) {
  return linear({array, offset, to, side, false}, size, stream, null, asynchronous);
}

CUresult between(CUarray to, size_t to_offset, CUarray from, size_t from_offset, size_t size,
                 Default null) {
  StreamRef stream;
  if (CUresult bad = find_stream(nullptr, null, &stream)) return bad;
  if (!driver()->handles.find<Array>(to) || !driver()->handles.find<Array>(from))
    return refuse(CUDA_ERROR_INVALID_VALUE, "%p or %p is no array", (void *)to, (void *)from);
  return guarded([&]() -> CUresult {
    while (size) {
      // Row by row where the rows of both do not agree.
      Part there, here;
      if (CUresult bad = next_part(to, to_offset, size, &there)) return bad;
      if (CUresult bad = next_part(from, from_offset, size, &here)) return bad;
      Box box = there.box.width == here.box.width
                    ? Box{here.box.width, std::min(here.box.height, there.box.height), 1}
                    : Box{std::min(here.box.width, there.box.width), 1, 1};
      End destination, source;
      if (CUresult bad = array_end(to, there.x, there.y, there.z, box, &destination)) return bad;
      if (CUresult bad = array_end(from, here.x, here.y, here.z, box, &source)) return bad;
      if (CUresult bad = copy(stream, destination, source, box, false)) return bad;
      const size_t bytes = box.width * box.height;
      to_offset += bytes;
      from_offset += bytes;
      size -= bytes;
    }
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

CUresult cuMemcpyHtoA_v2(CUarray to, size_t offset, const void *from, size_t size) {
  return to_array(to, offset, address_of(from), Side::kHost, size, nullptr, Default::kLegacy,
                  false);
}
CUresult cuMemcpyHtoA_v2_ptds(CUarray to, size_t offset, const void *from, size_t size) {
  return to_array(to, offset, address_of(from), Side::kHost, size, nullptr, Default::kPerThread,
                  false);
}
CUresult cuMemcpyHtoAAsync_v2(CUarray to, size_t offset, const void *from, size_t size,
                              CUstream stream) {
  return to_array(to, offset, address_of(from), Side::kHost, size, stream, Default::kLegacy, true);
}
CUresult cuMemcpyHtoAAsync_v2_ptsz(CUarray to, size_t offset, const void *from, size_t size,
                                   CUstream stream) {
  return to_array(to, offset, address_of(from), Side::kHost, size, stream, Default::kPerThread,
                  true);
}
CUresult cuMemcpyDtoA_v2(CUarray to, size_t offset, CUdeviceptr from, size_t size) {
  return to_array(to, offset, from, Side::kDevice, size, nullptr, Default::kLegacy, false);
}
CUresult cuMemcpyDtoA_v2_ptds(CUarray to, size_t offset, CUdeviceptr from, size_t size) {
  return to_array(to, offset, from, Side::kDevice, size, nullptr, Default::kPerThread, false);
}
CUresult cuMemcpyAtoH_v2(void *to, CUarray from, size_t offset, size_t size) {
  return from_array(address_of(to), Side::kHost, from, offset, size, nullptr, Default::kLegacy,
                    false);
}
CUresult cuMemcpyAtoH_v2_ptds(void *to, CUarray from, size_t offset, size_t size) {
  return from_array(address_of(to), Side::kHost, from, offset, size, nullptr, Default::kPerThread,
                    false);
}
CUresult cuMemcpyAtoHAsync_v2(void *to, CUarray from, size_t offset, size_t size, CUstream stream) {
  return from_array(address_of(to), Side::kHost, from, offset, size, stream, Default::kLegacy,
                    true);
}
CUresult cuMemcpyAtoHAsync_v2_ptsz(void *to, CUarray from, size_t offset, size_t size,
                                   CUstream stream) {
  return from_array(address_of(to), Side::kHost, from, offset, size, stream, Default::kPerThread,
                    true);
}
CUresult cuMemcpyAtoD_v2(CUdeviceptr to, CUarray from, size_t offset, size_t size) {
  return from_array(to, Side::kDevice, from, offset, size, nullptr, Default::kLegacy, false);
}
CUresult cuMemcpyAtoD_v2_ptds(CUdeviceptr to, CUarray from, size_t offset, size_t size) {
  return from_array(to, Side::kDevice, from, offset, size, nullptr, Default::kPerThread, false);
}
CUresult cuMemcpyAtoA_v2(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                         size_t size) {
  return between(to, to_offset, from, from_offset, size, Default::kLegacy);
}
CUresult cuMemcpyAtoA_v2_ptds(CUarray to, size_t to_offset, CUarray from, size_t from_offset,
                              size_t size) {
  return between(to, to_offset, from, from_offset, size, Default::kPerThread);
}

}  // extern "C"
