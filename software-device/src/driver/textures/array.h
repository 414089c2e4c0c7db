// CUDA arrays and mipmapped arrays: memory of the device in a layout that only we know. Programs
// reach it by copies, textures and surfaces.
#pragma once

#include <memory>
#include <vector>

#include "core/handles.h"
#include "streams/context.h"
#include "streams/transfer.h"
#include "textures/format.h"

namespace softdev::driver {

// What an array looks like, before and after it has memory.
struct ArrayShape {
  Format format;
  CUDA_ARRAY3D_DESCRIPTOR descriptor{};
  uint32_t dimensions = 1;  // 1, 2 or 3; of a layered one, those of a layer
  uint32_t layers = 0;      // 0: not layered; of a cube, whole cubes
  bool cube = false;
  std::vector<ImageLevel> levels;  // addresses are offsets until there is memory
  uint64_t bytes = 0;              // of all levels
};

// The shape that a descriptor asks for, if it is one that this device can have.
CUresult read_shape(const CUDA_ARRAY3D_DESCRIPTOR &descriptor, unsigned levels, ArrayShape *shape);

class Array : public Object {
 public:
  static constexpr Kind kKind = Kind::kArray;
  std::weak_ptr<Context> context;
  ArrayShape shape;        // with one level
  bool of_mipmap = false;  // a level of a mipmapped array, which owns the memory
};

class MipmappedArray : public Object {
 public:
  static constexpr Kind kKind = Kind::kMipmappedArray;
  std::weak_ptr<Context> context;
  ArrayShape shape;
  std::vector<uint64_t> levels;  // handles of the arrays
};

CUresult create_array(const std::shared_ptr<Context> &context, ArrayShape shape,
                      std::shared_ptr<Array> *array);
CUresult create_mipmapped_array(const std::shared_ptr<Context> &context, ArrayShape shape,
                                std::shared_ptr<MipmappedArray> *array);
// Wait for the device, as freeing memory does. The handle has been removed.
void destroy_array(const Array &array);
void destroy_mipmapped_array(const MipmappedArray &array);

// One end of a copy of `box`, whose width is in bytes, at x bytes, row y and slice z of an array.
// CUDA_ERROR_INVALID_VALUE when the box leaves it or cuts elements.
CUresult array_end(CUarray handle, size_t x, size_t y, size_t z, const Box &box, End *end);

}  // namespace softdev::driver
