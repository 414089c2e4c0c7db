// Formats of elements of arrays and textures.
#pragma once

#include "cuda_driver.h"
#include "texture.h"

namespace softdev::driver {

// Flags of the driver API that are not enumerations.
namespace array_flags {
inline constexpr unsigned kLayered = 0x1, kSurface = 0x2, kCube = 0x4, kGather = 0x8, kDepth = 0x10,
                          kColorAttachment = 0x20, kSparse = 0x40, kDeferredMapping = 0x80,
                          kVideo = 0x100;
}  // namespace array_flags
namespace texture_flags {
inline constexpr unsigned kReadAsInteger = 0x1, kNormalizedCoordinates = 0x2, kSrgb = 0x10,
                          kNoTrilinearOptimization = 0x20, kSeamlessCube = 0x40;
inline constexpr unsigned kOverrideFormat = 0x1;  // of cuTexRefSetArray
}  // namespace texture_flags

struct Format {
  Channel channel = Channel::Float;
  uint8_t channels = 1;
  uint8_t element = 4;      // bytes
  bool normalized = false;  // reads are always floats
};

// CUDA_ERROR_INVALID_VALUE for what is no format, CUDA_ERROR_NOT_SUPPORTED for one that this
// device has not.
CUresult read_format(CUarray_format format, unsigned channels, Format *out);
// The format that a resource view asks for.
CUresult read_view_format(CUresourceViewFormat format, Format *out);

}  // namespace softdev::driver
