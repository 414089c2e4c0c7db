// Texture and surface objects: what a program asked for, and what kernels see of it.
#pragma once

#include <atomic>
#include <memory>

#include "core/handles.h"
#include "streams/context.h"
#include "textures/format.h"

namespace softdev::driver {

class TextureObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kTexture;
  std::weak_ptr<Context> context;
  std::atomic<bool> ended{false};  // by the program; kernels queued before may use it still
  int device = 0;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
  bool has_view = false;
  std::shared_ptr<const ImageView> image;
};

class SurfaceObject : public Object {
 public:
  static constexpr Kind kKind = Kind::kSurface;
  std::weak_ptr<Context> context;
  std::atomic<bool> ended{false};  // by the program; kernels queued before may use it still
  int device = 0;
  CUDA_RESOURCE_DESC resource{};
  std::shared_ptr<const ImageView> image;
};

// The image behind a resource, as a texture with these settings. `view` may be null.
CUresult make_texture(const CUDA_RESOURCE_DESC &resource, const CUDA_TEXTURE_DESC &texture,
                      const CUDA_RESOURCE_VIEW_DESC *view, std::shared_ptr<const ImageView> *image);
CUresult make_surface(const CUDA_RESOURCE_DESC &resource, std::shared_ptr<const ImageView> *image);

// Ends what a handle stands for, if it is a texture, a surface, or an array; for a context that
// ends.
void release_image(uint64_t handle);

}  // namespace softdev::driver
