// Texture and surface references: variables of a module that a program binds to memory by name.
// Deprecated, and in use.
#pragma once

#include <memory>
#include <mutex>

#include "core/handles.h"
#include "streams/context.h"
#include "textures/format.h"

namespace softdev::driver {

class TextureReference : public Object {
 public:
  static constexpr Kind kKind = Kind::kTextureReference;

  // As NVIDIA's driver begins them.
  TextureReference() {
    for (CUaddress_mode &mode : settings.addressMode) mode = CU_TR_ADDRESS_MODE_CLAMP;
  }

  uint64_t variable = 0;  // its address; 0 for one that belongs to no module
  bool created = false;   // by cuTexRefCreate, and not part of a module

  std::mutex mutex;  // for all below
  CUDA_TEXTURE_DESC settings{};
  CUDA_RESOURCE_DESC resource{};
  bool bound = false;
  CUarray_format format = CU_AD_FORMAT_FLOAT;
  unsigned channels = 1;

  // Settings take effect at the next launch.
  void changed() { image.reset(); }
  std::shared_ptr<const ImageView> image;  // made at need
};

class SurfaceReference : public Object {
 public:
  static constexpr Kind kKind = Kind::kSurfaceReference;
  uint64_t variable = 0;

  std::mutex mutex;  // for all below
  CUarray array = nullptr;
  std::shared_ptr<const ImageView> image;
};

// What kernels find behind a reference now; empty while it is bound to nothing.
std::shared_ptr<const ImageView> image_of(TextureReference &reference);
std::shared_ptr<const ImageView> image_of(SurfaceReference &reference);

}  // namespace softdev::driver
