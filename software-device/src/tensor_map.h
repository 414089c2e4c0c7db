// A tensor map: which part of a tensor in global memory one instruction copies, and how that lies
// in shared memory. The driver makes them, programs keep and pass them on as 128 bytes that only
// the device reads, and kernels may replace some of their fields: part of the border in engine.h.
#pragma once

#include <cstdint>

namespace softdev {

inline constexpr unsigned kTensorRanks = 5;
inline constexpr unsigned kTensorMapAlignment = 64;

// In the order of CUtensorMapDataType.
enum class TensorElement : uint8_t {
  U8,
  U16,
  U32,
  S32,
  U64,
  S64,
  F16,
  F32,
  F64,
  BF16,
  F32Ftz,
  TF32,
  TF32Ftz,
  U4,        // packed in both memories
  U4Padded,  // sixteen in 8 bytes of global memory, and in the first half of 16 in shared memory
  U6Padded,  // sixteen in 12 bytes of global memory, and in 16 of shared memory
  Count
};
// Chunks change places in each row of so many bytes; of how many bytes a chunk is, TensorAtom says.
enum class TensorSwizzle : uint8_t { None, Bytes32, Bytes64, Bytes128, Count };
enum class TensorAtom : uint8_t { Bytes16, Bytes32, Bytes64, Count };
// Wide: pixels of one row of each image, for im2col::w and im2col::w::128.
enum class TensorKind : uint8_t { Tiled, Im2col, Wide, Wide128, Count };

// The fields of dimension 0, the innermost one, come first. Dimension 0 has no stride: its elements
// lie next to each other.
struct TensorMap {
  static constexpr uint32_t kMark = 0x544d4150;

  uint64_t address = 0;
  uint64_t strides[kTensorRanks - 1] = {};  // bytes, of dimension 1 and on
  uint32_t mark = kMark;                    // tells a map from other bytes
  uint32_t last[kTensorRanks] = {};         // elements in each dimension, less one
  uint16_t box[kTensorRanks] = {};          // tiled: elements that are stepped over
  uint16_t channels = 0, pixels = 0;        // im2col: what is copied
  int16_t lower[kTensorRanks - 2] = {};     // im2col: of the box of pixels, from the tensor's
  int16_t upper[kTensorRanks - 2] = {};     // ... first and last ones; dimension 1 first, or only
  uint8_t steps[kTensorRanks] = {};         // elements from one that is copied to the next
  uint8_t rank = 1;
  TensorKind kind = TensorKind::Tiled;
  TensorElement element = TensorElement::U8;
  TensorSwizzle swizzle = TensorSwizzle::None;
  uint8_t fills_nan = 0;  // outside of the tensor; else zeros
  TensorAtom atom = TensorAtom::Bytes16;
  uint8_t unused[27] = {};
};
static_assert(sizeof(TensorMap) == 128);

inline unsigned element_bits(TensorElement element) {
  static constexpr uint8_t kBits[] = {8, 16, 32, 32, 64, 64, 16, 32, 64, 16, 32, 32, 32, 4, 4, 6};
  static_assert(sizeof kBits == static_cast<unsigned>(TensorElement::Count));
  return kBits[static_cast<unsigned>(element)];
}
inline bool is_float(TensorElement element) {
  return element >= TensorElement::F16 && element < TensorElement::U4;
}
// Sixteen elements lie in 16 bytes of shared memory and in fewer of global memory.
inline bool is_padded(TensorElement element) { return element >= TensorElement::U4Padded; }
// All elements of a box's row, when they are padded.
inline constexpr unsigned kPaddedRow = 128;
// What addresses and strides are multiples of.
inline unsigned tensor_alignment(TensorElement element) { return is_padded(element) ? 32 : 16; }
// Elements of dimension 0 that boxes and tensors begin and end at.
inline unsigned element_unit(TensorElement element) {
  return is_padded(element) ? kPaddedRow : element == TensorElement::U4 ? 2 : 1;
}

// How many bytes of shared memory the rows of a box lie apart: at least those that chunks change
// places in.
inline uint32_t swizzle_span(TensorSwizzle swizzle) {
  return swizzle == TensorSwizzle::None ? 0 : 16u << static_cast<unsigned>(swizzle);
}

}  // namespace softdev
