// Textures and surfaces: what they are made of is checked to be the session's, and the driver
// judges the rest.
#include <cstring>

#include "abi_array.h"
#include "base/served_values.h"
#include "base/span.h"
#include "commands/text.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {

namespace {

// A resource of the session; CUDA_ERROR_INVALID_VALUE otherwise. `q` is any command that has one.
template <class Command>
CUresult find_resource(Session &s, const Command &q, CUDA_RESOURCE_DESC *resource) {
  *resource = {};
  resource->resType = static_cast<CUresourcetype>(q.kind);
  const auto format = static_cast<CUarray_format>(q.format);
  switch (q.kind) {
    case CU_RESOURCE_TYPE_ARRAY:
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY: {
      const Array *array = s.arrays().find(q.array);
      const bool mipmapped = q.kind == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY;
      if (!array || (array->mipmapped != nullptr) != mipmapped) return CUDA_ERROR_INVALID_VALUE;
      if (mipmapped) {
        resource->res.mipmap.hMipmappedArray = array->mipmapped;
      } else {
        resource->res.array.hArray = array->object;
      }
      return CUDA_SUCCESS;
    }
    case CU_RESOURCE_TYPE_LINEAR:
      // Drivers take more than there is; kernels can reach what they have addresses of anyway.
      if (!s.reachable(q.address, 1)) return CUDA_ERROR_INVALID_VALUE;
      if (abi_element_bytes(format, q.channels) == 0) return CUDA_ERROR_INVALID_VALUE;
      resource->res.linear.devPtr = q.address;
      resource->res.linear.format = format;
      resource->res.linear.numChannels = q.channels;
      resource->res.linear.sizeInBytes = q.width;
      return CUDA_SUCCESS;
    case CU_RESOURCE_TYPE_PITCH2D: {
      // The row of a format that is not known to us is not known either.
      const uint64_t element = abi_element_bytes(format, q.channels);
      const uint64_t bytes = span_2d(q.pitch, q.height, span_1d(q.width, element));
      if (element == 0) return CUDA_ERROR_NOT_SUPPORTED;
      if (!s.reachable(q.address, bytes)) return CUDA_ERROR_INVALID_VALUE;
      resource->res.pitch2D.devPtr = q.address;
      resource->res.pitch2D.format = format;
      resource->res.pitch2D.numChannels = q.channels;
      resource->res.pitch2D.width = q.width;
      resource->res.pitch2D.height = q.height;
      resource->res.pitch2D.pitchInBytes = q.pitch;
      return CUDA_SUCCESS;
    }
    default:
      return CUDA_ERROR_INVALID_VALUE;
  }
}

template <class T>
bool read(std::span<const uint8_t> bytes, T *to) {
  if (bytes.size() != sizeof *to) return false;
  memcpy(to, bytes.data(), sizeof *to);
  return true;
}

CUresult bind(const Driver &driver, CUtexref reference, const CUDA_RESOURCE_DESC &resource) {
  constexpr unsigned kOverrideFormat = 1;  // CU_TRSA_OVERRIDE_FORMAT
  const auto &res = resource.res;
  switch (resource.resType) {
    case CU_RESOURCE_TYPE_ARRAY:
      return driver.cuTexRefSetArray(reference, res.array.hArray, kOverrideFormat);
    case CU_RESOURCE_TYPE_MIPMAPPED_ARRAY:
      return driver.cuTexRefSetMipmappedArray(reference, res.mipmap.hMipmappedArray,
                                              kOverrideFormat);
    case CU_RESOURCE_TYPE_LINEAR: {
      size_t offset = 0;
      const CUresult result = driver.cuTexRefSetFormat(reference, res.linear.format,
                                                       static_cast<int>(res.linear.numChannels));
      if (result != CUDA_SUCCESS) return result;
      return driver.cuTexRefSetAddress_v2(&offset, reference, res.linear.devPtr,
                                          res.linear.sizeInBytes);
    }
    default: {
      const CUDA_ARRAY_DESCRIPTOR plane{res.pitch2D.width, res.pitch2D.height, res.pitch2D.format,
                                        res.pitch2D.numChannels};
      return driver.cuTexRefSetAddress2D_v3(reference, &plane, res.pitch2D.devPtr,
                                            res.pitch2D.pitchInBytes);
    }
  }
}

CUresult set(const Driver &driver, CUtexref reference, CUDA_TEXTURE_DESC &texture) {
  CUresult first = CUDA_SUCCESS;
  const auto each = [&](CUresult result) { keep_first(first, result); };
  for (int d = 0; d < 3; d++) {
    each(driver.cuTexRefSetAddressMode(reference, d, texture.addressMode[d]));
  }
  each(driver.cuTexRefSetFilterMode(reference, texture.filterMode));
  each(driver.cuTexRefSetMipmapFilterMode(reference, texture.mipmapFilterMode));
  each(driver.cuTexRefSetMipmapLevelBias(reference, texture.mipmapLevelBias));
  each(driver.cuTexRefSetMipmapLevelClamp(reference, texture.minMipmapLevelClamp,
                                          texture.maxMipmapLevelClamp));
  each(driver.cuTexRefSetMaxAnisotropy(reference, texture.maxAnisotropy));
  each(driver.cuTexRefSetBorderColor(reference, texture.borderColor));
  each(driver.cuTexRefSetFlags(reference, texture.flags));
  return first;
}

}  // namespace

void handle_TextureCreate(Session &s, const wire_TextureCreate &q, std::span<const uint8_t> texture,
                          std::span<const uint8_t> view) {
  wire_TextureCreate_reply reply{};
  const auto answer = [&](CUresult result) {
    s.answers().send(q.request.request, result, &reply.reply, sizeof reply);
  };
  CUDA_RESOURCE_DESC resource;
  CUDA_TEXTURE_DESC settings;
  CUDA_RESOURCE_VIEW_DESC part;
  if (!read(texture, &settings) || (!view.empty() && !read(view, &part))) {
    return s.violation("a description of a texture has another size");
  }
  if (!s.has_room<CUtexObject>()) return answer(CUDA_ERROR_OUT_OF_MEMORY);
  const bool served = is_served(settings) && (view.empty() || is_served(part));
  CUresult result = served ? find_resource(s, q, &resource) : CUDA_ERROR_INVALID_VALUE;
  CUtexObject object = 0;
  if (result == CUDA_SUCCESS) {
    result =
        s.driver().cuTexObjectCreate(&object, &resource, &settings, view.empty() ? nullptr : &part);
  }
  if (result == CUDA_SUCCESS) s.textures().keep(object, false);
  reply.object = object;
  answer(result);
}

void handle_SurfaceCreate(Session &s, const wire_SurfaceCreate &q) {
  wire_SurfaceCreate_reply reply{};
  const auto answer = [&](CUresult result) {
    s.answers().send(q.request.request, result, &reply.reply, sizeof reply);
  };
  const Array *array = s.arrays().find(q.array);
  if (!array || !array->object) return answer(CUDA_ERROR_INVALID_VALUE);
  if (!s.has_room<CUtexObject>()) return answer(CUDA_ERROR_OUT_OF_MEMORY);
  CUDA_RESOURCE_DESC resource{};
  resource.resType = CU_RESOURCE_TYPE_ARRAY;
  resource.res.array.hArray = array->object;
  CUsurfObject object = 0;
  const CUresult result = s.driver().cuSurfObjectCreate(&object, &resource);
  if (result == CUDA_SUCCESS) s.textures().keep(object, true);
  reply.object = object;
  answer(result);
}

void handle_TextureDestroy(Session &s, const wire_TextureDestroy &q) {
  s.posted(WIRE_TextureDestroy, s.textures().destroy(q.object));
}

void handle_ReferenceGet(Session &s, const wire_ReferenceGet &q, std::span<const uint8_t> name) {
  const uint64_t request = q.request.request;
  if (!s.textures().can_mint(q.reference)) {
    return s.violation("a reference's handle cannot be minted");
  }
  const Module *module = s.loaded().find(q.module);
  if (!module) return s.answers().send(request, CUDA_ERROR_INVALID_HANDLE);
  Reference reference;
  reference.module = module;
  CUmodule object = nullptr;
  CUresult result = s.driver().cuLibraryGetModule(&object, module->library);
  if (result == CUDA_SUCCESS) {
    const std::string wanted = text_of(name);
    result = q.surface ? s.driver().cuModuleGetSurfRef(&reference.surface, object, wanted.c_str())
                       : s.driver().cuModuleGetTexRef(&reference.texture, object, wanted.c_str());
  }
  if (result == CUDA_SUCCESS) s.textures().keep(q.reference, reference);
  s.answers().send(request, result);
}

void handle_TextureReferenceSet(Session &s, const wire_TextureReferenceSet &q,
                                std::span<const uint8_t> texture) {
  const auto posted = [&](CUresult result) { s.posted(WIRE_TextureReferenceSet, result); };
  CUDA_TEXTURE_DESC settings;
  if (!read(texture, &settings)) {
    return s.violation("a description of a texture has another size");
  }
  const Reference *reference = s.textures().find(q.reference);
  if (!reference || !reference->texture) return posted(CUDA_ERROR_INVALID_HANDLE);
  const auto own_format = static_cast<CUarray_format>(q.own_format);
  if (!is_served(settings) || abi_element_bytes(own_format, q.own_channels) == 0) {
    return posted(CUDA_ERROR_INVALID_VALUE);
  }
  if (q.bound) {
    CUDA_RESOURCE_DESC resource;
    CUresult result = find_resource(s, q, &resource);
    if (result == CUDA_SUCCESS) result = bind(s.driver(), reference->texture, resource);
    if (result != CUDA_SUCCESS) return posted(result);
  }
  const CUresult result = set(s.driver(), reference->texture, settings);
  if (result != CUDA_SUCCESS) return posted(result);
  posted(s.driver().cuTexRefSetFormat(reference->texture, own_format,
                                      static_cast<int>(q.own_channels)));
}

void handle_SurfaceReferenceSet(Session &s, const wire_SurfaceReferenceSet &q) {
  const Reference *reference = s.textures().find(q.reference);
  const Array *array = s.arrays().find(q.array);
  if (!reference || !reference->surface || !array || !array->object) {
    return s.posted(WIRE_SurfaceReferenceSet, CUDA_ERROR_INVALID_HANDLE);
  }
  s.posted(WIRE_SurfaceReferenceSet,
           s.driver().cuSurfRefSetArray(reference->surface, array->object, 0));
}

}  // namespace outboard
