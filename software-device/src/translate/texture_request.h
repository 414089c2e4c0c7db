// What a texture or surface instruction asks for, besides its operands: the immediate of its Ins.
#pragma once

#include <bit>
#include <cstdint>

namespace softdev {

enum class TextureLod : uint8_t { Base, Level, Gradient, Gather };
enum class TextureResult : uint8_t { Bits, HalfPair, Half };  // HalfPair: two halves a register
enum class SurfaceBounds : uint8_t { Trap, Clamp, Zero };

struct TextureRequest {
  uint8_t dimensions = 1;  // of a coordinate; 2 for a cube's face
  bool layered = false;
  bool cube = false;
  bool integer_coordinates = false;
  TextureLod lod = TextureLod::Base;
  TextureResult result = TextureResult::Bits;
  uint8_t component = 0;  // of a gather
  bool offsets = false;
};

struct SurfaceRequest {
  uint8_t dimensions = 1;
  bool layered = false;
  bool formatted = false;  // by sample and with conversion; else by byte
  SurfaceBounds bounds = SurfaceBounds::Trap;
  uint8_t bytes = 4;  // of one element
  uint8_t padding[3] = {0, 0, 0};
};

// Where the operands of both stand among the inputs of the instruction.
enum TextureInput : uint8_t {
  kInputX,
  kInputY,
  kInputZ,
  kInputLayer,
  kInputLevel,
  kInputGradientX = kInputLevel,      // three
  kInputGradientY = kInputLevel + 3,  // three
  kInputOffset = kInputLevel + 6,     // three
  kTextureInputs = kInputOffset + 3,
  kInputData = kInputLevel,  // of a store: up to four
  kSurfaceInputs = kInputData + 4,
};

template <class Request>
int64_t to_immediate(const Request &request) {
  static_assert(sizeof(Request) == 8);
  return std::bit_cast<int64_t>(request);
}
template <class Request>
Request from_immediate(int64_t immediate) {
  return std::bit_cast<Request>(immediate);
}

// What txq and suq ask.
enum class TextureQuery : uint8_t {
  Width,
  Height,
  Depth,
  ArraySize,
  Levels,
  Samples,
  DataType,
  Order,
  NormalizedCoordinates,
  UnnormalizedForced,
  Filter,
  AddressMode0,
  AddressMode1,
  AddressMode2,
  MemoryLayout,
};

}  // namespace softdev
