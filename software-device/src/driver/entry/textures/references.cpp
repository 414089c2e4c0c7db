// Entry points: texture and surface references.
#include <algorithm>

#include "entry/entry.h"
#include "modules/module.h"
#include "textures/array.h"
#include "textures/image_object.h"
#include "textures/reference.h"

using namespace softdev::driver;
using softdev::ImageView;

namespace {

constexpr uint64_t kTextureAlign = 512;

template <class Reference>
CUresult find_reference(CUmodule handle, const char *name, ImageView::Kind kind,
                        std::shared_ptr<Reference> *out) {
  if (CUresult bad = enter()) return bad;
  auto module = driver()->handles.find<Module>(handle);
  if (!module) return refuse(CUDA_ERROR_INVALID_HANDLE, "%p is no module", (void *)handle);
  if (!name) return CUDA_ERROR_INVALID_VALUE;
  for (const softdev::Reference &reference : module->instance->program().references()) {
    if (reference.name != name || reference.kind != kind) continue;
    *out = module->instance->reference<Reference>(reference.address);
    return CUDA_SUCCESS;
  }
  return refuse(CUDA_ERROR_NOT_FOUND, "the module has no reference %s", name);
}

// f(reference) with its lock held.
template <class F>
CUresult with(CUtexref handle, F f) {
  if (CUresult bad = enter()) return bad;
  auto reference = driver()->handles.find<TextureReference>(handle);
  if (!reference)
    return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no texture reference", (void *)handle);
  return guarded([&] {
    std::lock_guard guard(reference->mutex);
    return CUresult{f(*reference)};
  });
}

// The same for a setting.
template <class F>
CUresult change(CUtexref handle, F f) {
  return with(handle, [&](TextureReference &reference) {
    CUresult result = f(reference);
    if (result == CUDA_SUCCESS) reference.changed();
    return result;
  });
}

// Binds a resource, if it can be used.
CUresult bind(TextureReference &reference, const CUDA_RESOURCE_DESC &resource) {
  std::shared_ptr<const ImageView> image;
  CUDA_TEXTURE_DESC plain{};
  plain.flags = texture_flags::kReadAsInteger;
  if (CUresult bad = make_texture(resource, plain, nullptr, &image)) return bad;
  reference.resource = resource;
  reference.bound = true;
  return CUDA_SUCCESS;
}

// Binds an array, mipmapped or not.
CUresult bind_array(TextureReference &reference, const CUDA_ARRAY3D_DESCRIPTOR &array,
                    unsigned flags, const CUDA_RESOURCE_DESC &resource) {
  if (flags & ~texture_flags::kOverrideFormat) return CUDA_ERROR_INVALID_VALUE;
  if (flags & texture_flags::kOverrideFormat) {
    reference.format = array.Format;
    reference.channels = array.NumChannels;
  }
  return bind(reference, resource);
}

bool known(CUfilter_mode mode) {
  return mode == CU_TR_FILTER_MODE_POINT || mode == CU_TR_FILTER_MODE_LINEAR;
}

// A question with one answer.
template <class Answer, class F>
CUresult ask(CUtexref handle, Answer *answer, F f) {
  return with(handle, [&](TextureReference &reference) {
    if (!answer) return CUDA_ERROR_INVALID_VALUE;
    *answer = f(reference);
    return CUDA_SUCCESS;
  });
}

}  // namespace

extern "C" {

CUresult cuModuleGetTexRef(CUtexref *handle, CUmodule module, const char *name) {
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    std::shared_ptr<TextureReference> reference;
    if (CUresult bad = find_reference(module, name, ImageView::Kind::Texture, &reference))
      return bad;
    *handle = as_handle<CUtexref>(*reference);
    return CUDA_SUCCESS;
  });
}

CUresult cuModuleGetSurfRef(CUsurfref *handle, CUmodule module, const char *name) {
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    std::shared_ptr<SurfaceReference> reference;
    if (CUresult bad = find_reference(module, name, ImageView::Kind::Surface, &reference))
      return bad;
    *handle = as_handle<CUsurfref>(*reference);
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefCreate(CUtexref *handle) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!handle) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    auto reference = std::make_shared<TextureReference>();
    reference->created = true;
    context->own(driver()->handles.add(reference));
    *handle = as_handle<CUtexref>(*reference);
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefDestroy(CUtexref handle) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  auto reference = driver()->handles.find<TextureReference>(handle);
  if (!reference || !reference->created)
    return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no reference that a program created",
                  (void *)handle);
  driver()->handles.remove<TextureReference>(handle);
  context->disown(reference->handle());
  return CUDA_SUCCESS;
}

CUresult cuTexRefSetArray(CUtexref handle, CUarray array, unsigned int flags) {
  return change(handle, [&](TextureReference &reference) -> CUresult {
    auto found = driver()->handles.find<Array>(array);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    return bind_array(reference, found->shape.descriptor, flags, resource);
  });
}

CUresult cuTexRefSetMipmappedArray(CUtexref handle, CUmipmappedArray array, unsigned int flags) {
  return change(handle, [&](TextureReference &reference) -> CUresult {
    auto found = driver()->handles.find<MipmappedArray>(array);
    if (!found) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
    resource.res.mipmap.hMipmappedArray = array;
    return bind_array(reference, found->shape.descriptor, flags, resource);
  });
}

CUresult cuTexRefSetAddress_v2(size_t *offset, CUtexref handle, CUdeviceptr address, size_t bytes) {
  return change(handle, [&](TextureReference &reference) -> CUresult {
    const size_t beyond = address % kTextureAlign;
    if (beyond && !offset)
      return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is not a multiple of %llu", address,
                    static_cast<unsigned long long>(kTextureAlign));
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_LINEAR;
    resource.res.linear.devPtr = address - beyond;
    resource.res.linear.format = reference.format;
    resource.res.linear.numChannels = reference.channels;
    if (bytes > SIZE_MAX - beyond) return CUDA_ERROR_INVALID_VALUE;
    resource.res.linear.sizeInBytes = bytes + beyond;
    if (CUresult bad = bind(reference, resource)) return bad;
    if (offset) *offset = beyond;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetAddress2D_v3(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR *descriptor,
                                 CUdeviceptr address, size_t pitch) {
  return change(handle, [&](TextureReference &reference) -> CUresult {
    if (!descriptor) return CUDA_ERROR_INVALID_VALUE;
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_PITCH2D;
    resource.res.pitch2D = {address,           descriptor->Format, descriptor->NumChannels,
                            descriptor->Width, descriptor->Height, pitch};
    if (CUresult bad = bind(reference, resource)) return bad;
    reference.format = descriptor->Format;
    reference.channels = descriptor->NumChannels;
    return CUDA_SUCCESS;
  });
}
CUresult cuTexRefSetAddress2D_v2(CUtexref handle, const CUDA_ARRAY_DESCRIPTOR *descriptor,
                                 CUdeviceptr address, size_t pitch) {
  return cuTexRefSetAddress2D_v3(handle, descriptor, address, pitch);
}

CUresult cuTexRefSetFormat(CUtexref handle, CUarray_format format, int channels) {
  return change(handle, [&](TextureReference &reference) -> CUresult {
    Format known_format;
    if (CUresult bad = read_format(format, static_cast<unsigned>(channels), &known_format))
      return bad;
    reference.format = format;
    reference.channels = static_cast<unsigned>(channels);
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetAddressMode(CUtexref handle, int dimension, CUaddress_mode mode) {
  return change(handle, [&](TextureReference &reference) {
    if (dimension < 0 || dimension > 2 || static_cast<unsigned>(mode) > CU_TR_ADDRESS_MODE_BORDER)
      return CUDA_ERROR_INVALID_VALUE;
    reference.settings.addressMode[dimension] = mode;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetFilterMode(CUtexref handle, CUfilter_mode mode) {
  return change(handle, [&](TextureReference &reference) {
    if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
    reference.settings.filterMode = mode;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetMipmapFilterMode(CUtexref handle, CUfilter_mode mode) {
  return change(handle, [&](TextureReference &reference) {
    if (!known(mode)) return CUDA_ERROR_INVALID_VALUE;
    reference.settings.mipmapFilterMode = mode;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetMipmapLevelBias(CUtexref handle, float bias) {
  return change(handle, [&](TextureReference &reference) {
    reference.settings.mipmapLevelBias = bias;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetMipmapLevelClamp(CUtexref handle, float least, float most) {
  return change(handle, [&](TextureReference &reference) {
    reference.settings.minMipmapLevelClamp = least;
    reference.settings.maxMipmapLevelClamp = most;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetMaxAnisotropy(CUtexref handle, unsigned int most) {
  return change(handle, [&](TextureReference &reference) {
    reference.settings.maxAnisotropy = most;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetBorderColor(CUtexref handle, float *color) {
  return change(handle, [&](TextureReference &reference) {
    if (!color) return CUDA_ERROR_INVALID_VALUE;
    std::copy_n(color, 4, reference.settings.borderColor);
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefSetFlags(CUtexref handle, unsigned int flags) {
  return change(handle, [&](TextureReference &reference) {
    using namespace texture_flags;
    if (flags & ~(kReadAsInteger | kNormalizedCoordinates | kSrgb | kNoTrilinearOptimization |
                  kSeamlessCube))
      return CUDA_ERROR_INVALID_VALUE;
    reference.settings.flags = flags;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefGetArray(CUarray *array, CUtexref handle) {
  return with(handle, [&](TextureReference &reference) {
    if (!array || !reference.bound || reference.resource.resType != CU_RESOURCE_TYPE_ARRAY)
      return CUDA_ERROR_INVALID_VALUE;
    *array = reference.resource.res.array.hArray;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefGetMipmappedArray(CUmipmappedArray *array, CUtexref handle) {
  return with(handle, [&](TextureReference &reference) {
    if (!array || !reference.bound ||
        reference.resource.resType != CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
      return CUDA_ERROR_INVALID_VALUE;
    *array = reference.resource.res.mipmap.hMipmappedArray;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefGetAddress_v2(CUdeviceptr *address, CUtexref handle) {
  return with(handle, [&](TextureReference &reference) {
    const CUDA_RESOURCE_DESC &resource = reference.resource;
    if (!address || !reference.bound) return CUDA_ERROR_INVALID_VALUE;
    if (resource.resType == CU_RESOURCE_TYPE_LINEAR)
      *address = resource.res.linear.devPtr;
    else if (resource.resType == CU_RESOURCE_TYPE_PITCH2D)
      *address = resource.res.pitch2D.devPtr;
    else
      return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
  });
}

CUresult cuTexRefGetAddressMode(CUaddress_mode *mode, CUtexref handle, int dimension) {
  if (dimension < 0 || dimension > 2) return CUDA_ERROR_INVALID_VALUE;
  return ask(handle, mode, [&](TextureReference &reference) {
    return reference.settings.addressMode[dimension];
  });
}
CUresult cuTexRefGetFilterMode(CUfilter_mode *mode, CUtexref handle) {
  return ask(handle, mode,
             [](TextureReference &reference) { return reference.settings.filterMode; });
}
CUresult cuTexRefGetMipmapFilterMode(CUfilter_mode *mode, CUtexref handle) {
  return ask(handle, mode,
             [](TextureReference &reference) { return reference.settings.mipmapFilterMode; });
}
CUresult cuTexRefGetMipmapLevelBias(float *bias, CUtexref handle) {
  return ask(handle, bias,
             [](TextureReference &reference) { return reference.settings.mipmapLevelBias; });
}
CUresult cuTexRefGetMipmapLevelClamp(float *least, float *most, CUtexref handle) {
  return with(handle, [&](TextureReference &reference) {
    if (!least || !most) return CUDA_ERROR_INVALID_VALUE;
    *least = reference.settings.minMipmapLevelClamp;
    *most = reference.settings.maxMipmapLevelClamp;
    return CUDA_SUCCESS;
  });
}
CUresult cuTexRefGetMaxAnisotropy(int *most, CUtexref handle) {
  return ask(handle, most, [](TextureReference &reference) {
    return static_cast<int>(reference.settings.maxAnisotropy);
  });
}
CUresult cuTexRefGetBorderColor(float *color, CUtexref handle) {
  return with(handle, [&](TextureReference &reference) {
    if (!color) return CUDA_ERROR_INVALID_VALUE;
    std::copy_n(reference.settings.borderColor, 4, color);
    return CUDA_SUCCESS;
  });
}
CUresult cuTexRefGetFlags(unsigned int *flags, CUtexref handle) {
  return ask(handle, flags, [](TextureReference &reference) { return reference.settings.flags; });
}
CUresult cuTexRefGetFormat(CUarray_format *format, int *channels, CUtexref handle) {
  return with(handle, [&](TextureReference &reference) {
    if (!format || !channels) return CUDA_ERROR_INVALID_VALUE;
    *format = reference.format;
    *channels = static_cast<int>(reference.channels);
    return CUDA_SUCCESS;
  });
}

// All functions of a module see its references; nothing else can be attached.
CUresult cuParamSetTexRef(CUfunction function, int unit, CUtexref handle) {
  return with(handle, [&](TextureReference &reference) {
    if (!driver()->handles.find<Function>(function)) return CUDA_ERROR_INVALID_HANDLE;
    constexpr int kDefaultUnit = -1;  // CU_PARAM_TR_DEFAULT
    return unit == kDefaultUnit && !reference.created ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult cuSurfRefSetArray(CUsurfref handle, CUarray array, unsigned int flags) {
  if (CUresult bad = enter()) return bad;
  auto reference = driver()->handles.find<SurfaceReference>(handle);
  if (!reference || flags)
    return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no surface reference, or the flags are not 0",
                  (void *)handle);
  return guarded([&]() -> CUresult {
    CUDA_RESOURCE_DESC resource{};
    resource.resType = CU_RESOURCE_TYPE_ARRAY;
    resource.res.array.hArray = array;
    std::shared_ptr<const ImageView> image;
    if (CUresult bad = make_surface(resource, &image)) return bad;
    std::lock_guard guard(reference->mutex);
    reference->array = array;
    reference->image = std::move(image);
    return CUDA_SUCCESS;
  });
}

CUresult cuSurfRefGetArray(CUarray *array, CUsurfref handle) {
  if (CUresult bad = enter()) return bad;
  auto reference = driver()->handles.find<SurfaceReference>(handle);
  if (!reference)
    return refuse(CUDA_ERROR_INVALID_VALUE, "%p is no surface reference", (void *)handle);
  if (!array) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard guard(reference->mutex);
  if (!reference->array) return CUDA_ERROR_INVALID_VALUE;
  *array = reference->array;
  return CUDA_SUCCESS;
}

}  // extern "C"
