#include "memory/textures.h"

namespace outboard {

CUresult Textures::destroy(uint64_t object) {
  auto found = objects_.find(object);
  if (found == objects_.end()) return CUDA_ERROR_INVALID_VALUE;
  const bool surface = found->second;
  objects_.erase(found);
  return destroy(object, surface);
}

CUresult Textures::release() {
  CUresult first = CUDA_SUCCESS;
  for (const auto &[object, surface] : objects_) {
    keep_first(first, destroy(object, surface));
  }
  objects_.clear();
  references_.clear();
  return first;
}

}  // namespace outboard
