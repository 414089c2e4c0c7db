// What stands behind the handle of a texture or a surface: part of the border in engine.h.
//
// The driver makes these, and never changes one that a kernel may have found.
#pragma once

#include <cstdint>
#include <vector>

namespace softdev {

enum class Channel : uint8_t {
  Unsigned8,
  Unsigned16,
  Unsigned32,
  Signed8,
  Signed16,
  Signed32,
  Half,
  Float,
  Unsigned1010102,  // four channels in one word
};

enum class AddressMode : uint8_t { Wrap, Clamp, Mirror, Border };

// One mipmap level: rows of elements, `pitch` bytes apart, in slices `slice` bytes apart, which
// are the depth of a volume, the layers of a layered image or the faces of a cube.
struct ImageLevel {
  uint64_t address = 0;
  uint32_t width = 1, height = 1, depth = 1;
  uint64_t pitch = 0, slice = 0;
};

struct ImageView {
  enum class Kind : uint8_t { Texture, Surface } kind = Kind::Texture;
  Channel channel = Channel::Float;
  uint8_t channels = 1;  // 1, 2 or 4
  uint8_t element = 4;   // bytes
  uint8_t dimensions = 1;
  bool linear_memory = false;  // one row without filtering or addressing: outside it reads 0
  bool pitched = false;        // rows of the program's own memory
  bool cube = false;
  uint32_t layers = 0;  // 0: not layered; of a cube, whole cubes
  std::vector<ImageLevel> levels;

  // How textures are read.
  AddressMode address[3] = {AddressMode::Clamp, AddressMode::Clamp, AddressMode::Clamp};
  bool linear = false;         // filter
  bool normalized = false;     // coordinates
  bool read_as_float = false;  // integers become [0, 1] or [-1, 1]
  bool srgb = false;
  bool seamless = false;
  bool mipmap_linear = false;
  float level_bias = 0, level_least = 0, level_most = 0;
  float border[4] = {0, 0, 0, 0};
};

}  // namespace softdev
