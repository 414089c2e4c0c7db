// Entry points: texture and surface objects.
#include "entry/entry.h"
#include "textures/image_object.h"

using namespace softdev::driver;

namespace {

template <class Object>
CUresult find(unsigned long long handle, std::shared_ptr<Object> *object) {
  if (CUresult bad = enter()) return bad;
  *object = driver()->handles.find<Object>(handle);
  if (!*object)
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no %s object", handle,
                  Object::kKind == Kind::kTexture ? "texture" : "surface");
  return CUDA_SUCCESS;
}

template <class Object>
CUresult add(const std::shared_ptr<Context> &context, std::shared_ptr<Object> object,
             unsigned long long *handle) {
  object->context = context;
  object->device = context->device().ordinal;
  *handle = driver()->handles.add(std::move(object));
  context->own(*handle);
  return CUDA_SUCCESS;
}

// Kernels that run may have found it; it is forgotten when they are done.
template <class Object>
CUresult destroy(unsigned long long handle) {
  std::shared_ptr<Object> object;
  if (CUresult bad = find(handle, &object)) return bad;
  if (!driver()->handles.remove<Object>(handle)) return CUDA_ERROR_INVALID_VALUE;
  if (std::shared_ptr<Context> context = object->context.lock()) context->disown(handle);
  return guarded([&] {
    Space &space = driver()->memory.space(object->device);
    space.retire(object->image);
    space.forget_retired(driver()->devices[static_cast<size_t>(object->device)]->kernels);
    return CUDA_SUCCESS;
  });
}

// A copy of what the object was made of.
template <class Object, class T>
CUresult read(unsigned long long handle, T Object::*part, T *out) {
  std::shared_ptr<Object> object;
  if (CUresult bad = find(handle, &object)) return bad;
  if (!out) return CUDA_ERROR_INVALID_VALUE;
  *out = (*object).*part;
  return CUDA_SUCCESS;
}

}  // namespace

extern "C" {

CUresult cuTexObjectCreate(CUtexObject *handle, const CUDA_RESOURCE_DESC *resource,
                           const CUDA_TEXTURE_DESC *texture, const CUDA_RESOURCE_VIEW_DESC *view) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!handle || !resource || !texture) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    auto object = std::make_shared<TextureObject>();
    if (CUresult bad = make_texture(*resource, *texture, view, &object->image)) return bad;
    object->resource = *resource;
    object->texture = *texture;
    object->has_view = view != nullptr;
    if (view) object->view = *view;
    return add(context, std::move(object), handle);
  });
}

CUresult cuTexObjectDestroy(CUtexObject handle) { return destroy<TextureObject>(handle); }

CUresult cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUtexObject handle) {
  return read(handle, &TextureObject::resource, resource);
}

CUresult cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *texture, CUtexObject handle) {
  return read(handle, &TextureObject::texture, texture);
}

CUresult cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *view, CUtexObject handle) {
  std::shared_ptr<TextureObject> object;
  if (CUresult bad = find(handle, &object)) return bad;
  if (!view) return CUDA_ERROR_INVALID_VALUE;
  if (!object->has_view) return refuse(CUDA_ERROR_INVALID_VALUE, "the texture has no view");
  *view = object->view;
  return CUDA_SUCCESS;
}

CUresult cuSurfObjectCreate(CUsurfObject *handle, const CUDA_RESOURCE_DESC *resource) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (!handle || !resource) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&]() -> CUresult {
    auto object = std::make_shared<SurfaceObject>();
    if (CUresult bad = make_surface(*resource, &object->image)) return bad;
    object->resource = *resource;
    return add(context, std::move(object), handle);
  });
}

CUresult cuSurfObjectDestroy(CUsurfObject handle) { return destroy<SurfaceObject>(handle); }

CUresult cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *resource, CUsurfObject handle) {
  return read(handle, &SurfaceObject::resource, resource);
}

}  // extern "C"
