#include "textures/reference.h"

#include "core/driver.h"
#include "textures/image_object.h"

namespace softdev::driver {

std::shared_ptr<const ImageView> image_of(TextureReference &reference) {
  std::lock_guard guard(reference.mutex);
  if (reference.bound && !reference.image &&
      make_texture(reference.resource, reference.settings, nullptr, &reference.image))
    log(Level::kWarn, "a texture reference is bound to what cannot be used as it is set up");
  return reference.image;
}

std::shared_ptr<const ImageView> image_of(SurfaceReference &reference) {
  std::lock_guard guard(reference.mutex);
  return reference.image;
}

}  // namespace softdev::driver
