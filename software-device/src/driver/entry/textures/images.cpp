// Entry points: texture and surface objects.
#include <mutex>
#include <vector>

#include "entry/entry.h"
#include "textures/image_object.h"

using namespace softdev::driver;

namespace {

template <class Object>
CUresult find(unsigned long long handle, std::shared_ptr<Object> *object) {
  if (CUresult bad = enter()) return bad;
  *object = driver()->handles.find<Object>(handle);
  if (!*object || (*object)->ended)
    return refuse(CUDA_ERROR_INVALID_VALUE, "0x%llx is no %s object", handle,
                  Object::kKind == Kind::kTexture ? "texture" : "surface");
  return CUDA_SUCCESS;
}

// Kernels that run may have found it; it is forgotten when they are done.
template <class Object>
void forget(unsigned long long handle, const Object &object) {
  if (!driver()->handles.remove<Object>(handle)) return;  // with its context
  if (std::shared_ptr<Context> context = object.context.lock()) context->disown(handle);
  Space &space = driver()->memory.space(object.device);
  space.retire(object.image);
  space.forget_retired(driver()->devices[static_cast<size_t>(object.device)]->kernels);
}

// Ended by the program, when kernels were queued that may want them.
template <class Object>
struct Lingering {
  std::mutex mutex;
  std::vector<std::pair<unsigned long long, std::shared_ptr<Object>>> all;
};

template <class Object>
Lingering<Object> &lingering() {
  static auto *all = new Lingering<Object>;  // never destroyed, as all of the driver
  return *all;
}

template <class Object>
void forget_lingering() {
  std::lock_guard guard(lingering<Object>().mutex);
  std::erase_if(lingering<Object>().all, [](const auto &each) {
    std::shared_ptr<Context> context = each.second->context.lock();
    if (context && !context->idle()) return false;
    forget(each.first, *each.second);
    return true;
  });
}

template <class Object>
CUresult add(const std::shared_ptr<Context> &context, std::shared_ptr<Object> object,
             unsigned long long *handle) {
  forget_lingering<Object>();
  object->context = context;
  object->device = context->device().ordinal;
  *handle = driver()->handles.add(std::move(object));
  context->own(*handle);
  return CUDA_SUCCESS;
}

template <class Object>
CUresult destroy(unsigned long long handle) {
  std::shared_ptr<Object> object;
  if (CUresult bad = find(handle, &object)) return bad;
  if (object->ended.exchange(true)) return CUDA_ERROR_INVALID_VALUE;
  return guarded([&] {
    {
      std::lock_guard guard(lingering<Object>().mutex);
      lingering<Object>().all.emplace_back(handle, std::move(object));
    }
    forget_lingering<Object>();
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
