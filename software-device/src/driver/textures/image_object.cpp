#include "textures/image_object.h"

#include <algorithm>

#include "core/driver.h"
#include "textures/array.h"
#include "textures/reference.h"

namespace softdev::driver {
namespace {

constexpr uint64_t kTextureAlign = 512;
constexpr size_t kMostLinear = size_t{1} << 28;  // elements
constexpr size_t kMostPlaneWidth = 131072, kMostPlaneHeight = 65000, kMostPlanePitch = 2097120;

void take_format(const Format &format, ImageView *image) {
  image->channel = format.channel;
  image->channels = format.channels;
  image->element = format.element;
  image->read_as_float = format.normalized;
}

void take_shape(const ArrayShape &shape, ImageView *image) {
  take_format(shape.format, image);
  image->dimensions = static_cast<uint8_t>(shape.dimensions);
  image->layers = shape.layers;
  image->cube = shape.cube;
  image->levels = shape.levels;
}

// The program's own memory: it must be there now, and kernels check again.
CUresult check_memory(CUdeviceptr address, uint64_t size) {
  auto pin = driver()->memory.pin();
  if (!driver()->memory.copyable(address, size))
    return refuse(CUDA_ERROR_INVALID_VALUE, "%llu bytes from 0x%llx are not all in an allocation",
                  static_cast<unsigned long long>(size), address);
  return CUDA_SUCCESS;
}

CUresult take_linear(const CUDA_RESOURCE_DESC &resource, ImageView *image) {
  const auto &linear = resource.res.linear;
  Format format;
  if (CUresult bad = read_format(linear.format, linear.numChannels, &format)) return bad;
  const size_t elements = linear.sizeInBytes / format.element;
  if (!elements || elements > kMostLinear || linear.devPtr % kTextureAlign)
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  "%zu elements at 0x%llx: 1 to %zu, at a multiple of %llu bytes", elements,
                  linear.devPtr, kMostLinear, static_cast<unsigned long long>(kTextureAlign));
  // Drivers take descriptions of more than there is, which programs count on; every fetch is
  // checked.
  if (CUresult bad = check_memory(linear.devPtr, format.element)) return bad;
  take_format(format, image);
  image->linear_memory = true;
  ImageLevel level;
  level.address = linear.devPtr;
  level.width = static_cast<uint32_t>(elements);
  image->levels = {level};
  return CUDA_SUCCESS;
}

CUresult take_plane(const CUDA_RESOURCE_DESC &resource, ImageView *image) {
  const auto &plane = resource.res.pitch2D;
  Format format;
  if (CUresult bad = read_format(plane.format, plane.numChannels, &format)) return bad;
  if (!plane.width || !plane.height || plane.width > kMostPlaneWidth ||
      plane.height > kMostPlaneHeight || plane.pitchInBytes > kMostPlanePitch)
    return refuse(CUDA_ERROR_INVALID_VALUE, "%zu x %zu elements, rows %zu bytes apart: too large",
                  plane.width, plane.height, plane.pitchInBytes);
  const uint64_t row = plane.width * format.element;
  if (plane.devPtr % kTextureAlign || plane.pitchInBytes % limits::kTexturePitch ||
      plane.pitchInBytes < row)
    return refuse(CUDA_ERROR_INVALID_VALUE,
                  "the address 0x%llx must be a multiple of %llu, and the pitch %zu one of %d and "
                  "no less than a row",
                  plane.devPtr, static_cast<unsigned long long>(kTextureAlign), plane.pitchInBytes,
                  limits::kTexturePitch);
  if (CUresult bad = check_memory(plane.devPtr, plane.pitchInBytes * (plane.height - 1) + row))
    return bad;
  take_format(format, image);
  image->dimensions = 2;
  ImageLevel level;
  level.address = plane.devPtr;
  level.width = static_cast<uint32_t>(plane.width);
  level.height = static_cast<uint32_t>(plane.height);
  level.pitch = plane.pitchInBytes;
  level.slice = level.pitch * level.height;
  image->levels = {level};
  return CUDA_SUCCESS;
}

CUresult take_resource(const CUDA_RESOURCE_DESC &resource, ImageView *image) {
  if (resource.flags) return refuse(CUDA_ERROR_INVALID_VALUE, "the flags of a resource must be 0");
  Handles &handles = driver()->handles;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY: {
      auto array = handles.find<Array>(resource.res.array.hArray);
      if (!array) return refuse(CUDA_ERROR_INVALID_VALUE, "the resource is no array");
      take_shape(array->shape, image);
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      auto array = handles.find<MipmappedArray>(resource.res.mipmap.hMipmappedArray);
      if (!array) return refuse(CUDA_ERROR_INVALID_VALUE, "the resource is no mipmapped array");
      take_shape(array->shape, image);
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR:
      return take_linear(resource, image);
    case CU_RESOURCE_TYPE_PITCH2D:
      return take_plane(resource, image);
    default:
      return refuse(CUDA_ERROR_INVALID_VALUE, "%d is no type of a resource", resource.resType);
  }
}

CUresult take_view(const CUDA_RESOURCE_DESC &resource, const CUDA_RESOURCE_VIEW_DESC &view,
                   ImageView *image) {
  if (resource.resType != CU_RESOURCE_TYPE_ARRAY &&
      resource.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    return refuse(CUDA_ERROR_INVALID_VALUE, "only arrays have views");
  if (view.format != CU_RES_VIEW_FORMAT_NONE) {
    Format format;
    if (CUresult bad = read_view_format(view.format, &format)) return bad;
    if (format.element != image->element)
      return refuse(CUDA_ERROR_INVALID_VALUE, "the view has elements of %u bytes, the array of %u",
                    format.element, image->element);
    take_format(format, image);
  }
  const ImageLevel &base = image->levels[0];
  const uint64_t slices = image->layers * (image->cube ? 6 : 1);
  auto differs = [](size_t asked, uint64_t is) { return asked && asked != is; };
  if (differs(view.width, base.width) ||
      (image->dimensions >= 2 && differs(view.height, base.height)) ||
      (image->dimensions == 3 && differs(view.depth, base.depth)))
    return refuse(CUDA_ERROR_INVALID_VALUE, "the extent of the view is not that of the array");
  if (view.lastMipmapLevel >= image->levels.size() || view.firstMipmapLevel > view.lastMipmapLevel)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the array has %zu levels", image->levels.size());
  image->levels = std::vector<ImageLevel>(image->levels.begin() + view.firstMipmapLevel,
                                          image->levels.begin() + view.lastMipmapLevel + 1);
  if (!slices) return CUDA_SUCCESS;
  if (view.lastLayer >= slices || view.firstLayer > view.lastLayer)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the array has %llu layers",
                  static_cast<unsigned long long>(slices));
  const uint32_t count = view.lastLayer - view.firstLayer + 1;
  if (image->cube && (count % 6 || view.firstLayer % 6))
    return refuse(CUDA_ERROR_INVALID_VALUE, "a view of cubes has whole cubes");
  image->layers = image->cube ? count / 6 : count;
  for (ImageLevel &level : image->levels) level.address += view.firstLayer * level.slice;
  return CUDA_SUCCESS;
}

bool known_mode(CUaddress_mode mode) {
  return mode >= CU_TR_ADDRESS_MODE_WRAP && mode <= CU_TR_ADDRESS_MODE_BORDER;
}
bool known_filter(CUfilter_mode mode) {
  return mode == CU_TR_FILTER_MODE_POINT || mode == CU_TR_FILTER_MODE_LINEAR;
}

CUresult take_settings(const CUDA_TEXTURE_DESC &texture, ImageView *image) {
  using namespace texture_flags;
  if (texture.flags &
      ~(kReadAsInteger | kNormalizedCoordinates | kSrgb | kNoTrilinearOptimization | kSeamlessCube))
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%x are no flags of a texture", texture.flags);
  if (!known_filter(texture.filterMode) || !known_filter(texture.mipmapFilterMode))
    return refuse(CUDA_ERROR_INVALID_VALUE, "unknown filter mode");
  image->normalized = texture.flags & kNormalizedCoordinates;
  image->seamless = texture.flags & kSeamlessCube;
  static constexpr AddressMode kModes[] = {AddressMode::Wrap, AddressMode::Clamp,
                                           AddressMode::Mirror, AddressMode::Border};
  for (int d = 0; d < 3; d++) {
    if (!known_mode(texture.addressMode[d]))
      return refuse(CUDA_ERROR_INVALID_VALUE, "unknown address mode");
    AddressMode mode = kModes[texture.addressMode[d]];
    // Only what has a period repeats.
    bool repeats = mode == AddressMode::Wrap || mode == AddressMode::Mirror;
    image->address[d] = repeats && !image->normalized ? AddressMode::Clamp : mode;
  }
  const bool narrow = image->channel == Channel::Unsigned8 || image->channel == Channel::Signed8 ||
                      image->channel == Channel::Unsigned16 || image->channel == Channel::Signed16;
  const bool wide = image->channel == Channel::Unsigned32 || image->channel == Channel::Signed32;
  if (narrow && !(texture.flags & kReadAsInteger)) image->read_as_float = true;
  const bool integers = wide || (narrow && !image->read_as_float);
  if (texture.filterMode == CU_TR_FILTER_MODE_LINEAR && integers && !image->linear_memory)
    return refuse(CUDA_ERROR_INVALID_VALUE, "integers cannot be filtered");
  image->linear = texture.filterMode == CU_TR_FILTER_MODE_LINEAR && !image->linear_memory;
  image->mipmap_linear = texture.mipmapFilterMode == CU_TR_FILTER_MODE_LINEAR && !integers;
  image->srgb = (texture.flags & kSrgb) && image->channel == Channel::Unsigned8;
  image->level_bias = texture.mipmapLevelBias;
  image->level_least = texture.minMipmapLevelClamp;
  image->level_most = texture.maxMipmapLevelClamp;
  if (!image->linear_memory) std::copy_n(texture.borderColor, 4, image->border);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult make_texture(const CUDA_RESOURCE_DESC &resource, const CUDA_TEXTURE_DESC &texture,
                      const CUDA_RESOURCE_VIEW_DESC *view,
                      std::shared_ptr<const ImageView> *image) {
  auto fresh = std::make_shared<ImageView>();
  if (CUresult bad = take_resource(resource, fresh.get())) return bad;
  if (view)
    if (CUresult bad = take_view(resource, *view, fresh.get())) return bad;
  if (CUresult bad = take_settings(texture, fresh.get())) return bad;
  *image = std::move(fresh);
  return CUDA_SUCCESS;
}

CUresult make_surface(const CUDA_RESOURCE_DESC &resource, std::shared_ptr<const ImageView> *image) {
  if (resource.resType != CU_RESOURCE_TYPE_ARRAY)
    return refuse(CUDA_ERROR_INVALID_VALUE, "a surface is of an array");
  auto fresh = std::make_shared<ImageView>();
  if (CUresult bad = take_resource(resource, fresh.get())) return bad;
  auto array = driver()->handles.find<Array>(resource.res.array.hArray);
  if (!array || !(array->shape.descriptor.Flags & array_flags::kSurface))
    return refuse(CUDA_ERROR_INVALID_VALUE, "the array was not created for surfaces");
  fresh->kind = ImageView::Kind::Surface;
  *image = std::move(fresh);
  return CUDA_SUCCESS;
}

void release_image(uint64_t handle) {
  Handles &handles = driver()->handles;
  auto retire = [](int device, std::shared_ptr<const ImageView> image) {
    driver()->memory.space(device).retire(std::move(image));
  };
  if (auto texture = handles.remove<TextureObject>(handle)) retire(texture->device, texture->image);
  if (auto surface = handles.remove<SurfaceObject>(handle)) retire(surface->device, surface->image);
  // Their memory goes with the context.
  handles.remove<Array>(handle);
  handles.remove<MipmappedArray>(handle);
  handles.remove<TextureReference>(handle);  // those that programs created
}

}  // namespace softdev::driver
