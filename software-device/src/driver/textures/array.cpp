#include "textures/array.h"

#include <algorithm>
#include <bit>

#include "core/driver.h"

namespace softdev::driver {
namespace {

constexpr uint64_t kRowAlign = 64, kLevelAlign = 512;

struct Limits {
  size_t width, height, depth;  // of what the descriptor calls so
};

// What the attributes of the device say.
Limits limits_of(const CUDA_ARRAY3D_DESCRIPTOR &descriptor, bool mipmapped) {
  const unsigned flags = descriptor.Flags;
  const bool surface = flags & array_flags::kSurface;
  if (flags & array_flags::kCube) {
    const bool layered = flags & array_flags::kLayered;
    return {32768, 32768, layered ? 2046u : 6u};
  }
  if (flags & array_flags::kLayered)
    return descriptor.Height ? Limits{32768, 32768, 2048} : Limits{32768, 0, 2048};
  if (descriptor.Depth) {
    // Either extent, or the alternate one that is lower and deeper.
    return descriptor.Depth > 16384 && !surface ? Limits{8192, 8192, 32768}
                                                : Limits{16384, 16384, 16384};
  }
  if (descriptor.Height) {
    if (mipmapped || (flags & array_flags::kGather)) return {32768, 32768, 0};
    return {131072, 65536, 0};
  }
  if (mipmapped || surface) return {32768, 0, 0};
  return {131072, 0, 0};
}

CUresult check_flags(const CUDA_ARRAY3D_DESCRIPTOR &descriptor) {
  using namespace array_flags;
  const unsigned flags = descriptor.Flags;
  if (flags & ~(kLayered | kSurface | kCube | kGather | kDepth | kColorAttachment | kSparse |
                kDeferredMapping | kVideo))
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%x are no flags of an array", flags);
  if (flags & kSparse) return refuse(CUDA_ERROR_NOT_SUPPORTED, "sparse arrays are not supported");
  if (flags & kDeferredMapping)
    return refuse(CUDA_ERROR_NOT_SUPPORTED,
                  "arrays whose memory is mapped later are not supported");
  if (flags & (kDepth | kColorAttachment | kVideo))
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "there is no graphics or video on this device");
  if ((flags & kGather) && (!descriptor.Height || descriptor.Depth))
    return refuse(CUDA_ERROR_INVALID_VALUE, "gathers are of 2d arrays");
  return CUDA_SUCCESS;
}

ImageLevel level_of(const CUDA_ARRAY3D_DESCRIPTOR &descriptor, const Format &format, bool layered,
                    unsigned level) {
  auto extent = [&](size_t size) {
    return static_cast<uint32_t>(std::max<size_t>(size >> level, 1));
  };
  ImageLevel out;
  out.width = extent(descriptor.Width);
  out.height = descriptor.Height ? extent(descriptor.Height) : 1;
  out.depth = descriptor.Depth && !layered ? extent(descriptor.Depth) : 1;
  out.pitch = round_up(uint64_t{out.width} * format.element, kRowAlign);
  out.slice = out.pitch * out.height;
  return out;
}

bool is_array(const Region &region) { return region.kind == RegionKind::kArray; }

// The memory behind a shape; 0 when there is none left.
uint64_t place(const std::shared_ptr<Context> &context, ArrayShape *shape) {
  Memory &memory = driver()->memory;
  int device = context->device().ordinal;
  uint64_t base = memory.allocate_device(device, shape->bytes, kLevelAlign, context->handle(),
                                         RegionKind::kArray);
  for (ImageLevel &level : shape->levels) level.address += base;
  return base;
}

CUresult no_room(const std::shared_ptr<Context> &context, const ArrayShape &shape) {
  return refuse(
      CUDA_ERROR_OUT_OF_MEMORY, "an array of %llu bytes is asked for, %llu are free",
      static_cast<unsigned long long>(shape.bytes),
      static_cast<unsigned long long>(driver()->memory.free_bytes(context->device().ordinal)));
}

void release(uint64_t base) {
  Driver &all = *driver();
  auto drain_all = [&] {
    for (const auto &device : all.devices) device->drain();
  };
  // Copies that are queued name the memory: it goes off the books first.
  auto region = all.memory.remove(base, is_array);
  if (!region) return;
  drain_all();
  all.memory.destroy(std::move(region), drain_all);
}

}  // namespace

CUresult read_shape(const CUDA_ARRAY3D_DESCRIPTOR &descriptor, unsigned levels, ArrayShape *shape) {
  if (CUresult bad = read_format(descriptor.Format, descriptor.NumChannels, &shape->format))
    return bad;
  if (CUresult bad = check_flags(descriptor)) return bad;
  const bool layered = descriptor.Flags & array_flags::kLayered;
  const bool cube = descriptor.Flags & array_flags::kCube;
  if (!descriptor.Width) return refuse(CUDA_ERROR_INVALID_VALUE, "an array has a width");
  if (descriptor.Depth && !descriptor.Height && !layered)
    return refuse(CUDA_ERROR_INVALID_VALUE, "an array with a depth has a height");
  if ((layered || cube) && !descriptor.Depth)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a layered array has layers, and a cube has faces");
  if (cube && (descriptor.Width != descriptor.Height || descriptor.Depth % 6 ||
               (!layered && descriptor.Depth != 6)))
    return refuse(CUDA_ERROR_INVALID_VALUE, "a cube has six square faces");
  const Limits most = limits_of(descriptor, levels > 1);
  if (descriptor.Width > most.width || descriptor.Height > most.height ||
      descriptor.Depth > most.depth)
    return refuse(CUDA_ERROR_INVALID_VALUE, "%zu x %zu x %zu is larger than %zu x %zu x %zu",
                  descriptor.Width, descriptor.Height, descriptor.Depth, most.width, most.height,
                  most.depth);
  shape->descriptor = descriptor;
  shape->cube = cube;
  shape->layers = !layered ? 0 : static_cast<uint32_t>(descriptor.Depth / (cube ? 6 : 1));
  shape->dimensions = descriptor.Depth && !layered && !cube ? 3 : descriptor.Height ? 2 : 1;
  const uint64_t slices = layered || cube ? descriptor.Depth : 1;
  shape->levels.clear();
  shape->bytes = 0;
  for (unsigned i = 0; i < levels; i++) {
    ImageLevel level = level_of(descriptor, shape->format, layered || cube, i);
    level.address = shape->bytes;
    shape->levels.push_back(level);
    shape->bytes = round_up(shape->bytes + level.slice * level.depth * slices, kLevelAlign);
  }
  return CUDA_SUCCESS;
}

CUresult create_array(const std::shared_ptr<Context> &context, ArrayShape shape,
                      std::shared_ptr<Array> *array) {
  auto fresh = std::make_shared<Array>();
  if (!place(context, &shape)) return no_room(context, shape);
  fresh->context = context;
  fresh->shape = std::move(shape);
  context->own(driver()->handles.add(fresh));
  *array = std::move(fresh);
  return CUDA_SUCCESS;
}

CUresult create_mipmapped_array(const std::shared_ptr<Context> &context, ArrayShape shape,
                                std::shared_ptr<MipmappedArray> *array) {
  auto fresh = std::make_shared<MipmappedArray>();
  if (!place(context, &shape)) return no_room(context, shape);
  fresh->context = context;
  fresh->shape = std::move(shape);
  const ArrayShape &whole = fresh->shape;
  for (size_t i = 0; i < whole.levels.size(); i++) {
    auto level = std::make_shared<Array>();
    const ImageLevel &image = whole.levels[i];
    level->context = context;
    level->of_mipmap = true;
    level->shape = whole;
    level->shape.levels = {image};
    CUDA_ARRAY3D_DESCRIPTOR &descriptor = level->shape.descriptor;
    descriptor.Width = image.width;
    if (descriptor.Height) descriptor.Height = image.height;
    if (descriptor.Depth && !whole.layers && !whole.cube) descriptor.Depth = image.depth;
    fresh->levels.push_back(driver()->handles.add(level));
    context->own(level->handle());
  }
  context->own(driver()->handles.add(fresh));
  *array = std::move(fresh);
  return CUDA_SUCCESS;
}

void destroy_array(const Array &array) {
  if (std::shared_ptr<Context> context = array.context.lock()) context->disown(array.handle());
  release(array.shape.levels[0].address);
}

void destroy_mipmapped_array(const MipmappedArray &array) {
  std::shared_ptr<Context> context = array.context.lock();
  for (uint64_t level : array.levels) {
    driver()->handles.remove<Array>(level);
    if (context) context->disown(level);
  }
  if (context) context->disown(array.handle());
  release(array.shape.levels[0].address);
}

CUresult array_end(CUarray handle, size_t x, size_t y, size_t z, const Box &box, End *end) {
  auto array = driver()->handles.find<Array>(handle);
  if (!array) return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no array", (void *)handle);
  const ImageLevel &level = array->shape.levels[0];
  const size_t element = array->shape.format.element;
  if (x % element || box.width % element)
    return refuse(CUDA_ERROR_INVALID_VALUE, "%zu bytes from byte %zu cut elements of %zu bytes",
                  box.width, x, element);
  const CUDA_ARRAY3D_DESCRIPTOR &descriptor = array->shape.descriptor;
  const uint64_t extents[3] = {descriptor.Width * element, std::max<size_t>(descriptor.Height, 1),
                               std::max<size_t>(descriptor.Depth, 1)};
  const uint64_t begins[3] = {x, y, z}, sizes[3] = {box.width, box.height, box.depth};
  for (int d = 0; d < 3; d++)
    if (begins[d] > extents[d] || sizes[d] > extents[d] - begins[d])
      return refuse(CUDA_ERROR_INVALID_VALUE,
                    "the copy leaves an array of %zu x %zu x %zu elements", descriptor.Width,
                    descriptor.Height, descriptor.Depth);
  *end = {level.address + x + y * level.pitch + z * level.slice,
          level.pitch,
          level.slice,
          Side::kArray,
          handle,
          x,
          y,
          z};
  return CUDA_SUCCESS;
}

}  // namespace softdev::driver
