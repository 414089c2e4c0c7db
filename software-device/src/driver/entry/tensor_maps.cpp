// Entry points: tensor maps.
#include "entry/entry.h"
#include "tensor_map.h"

using namespace softdev::driver;
using softdev::element_bits;
using softdev::element_unit;
using softdev::is_float;
using softdev::is_padded;
using softdev::kPaddedRow;
using softdev::kTensorMapAlignment;
using softdev::kTensorRanks;
using softdev::swizzle_span;
using softdev::tensor_alignment;
using softdev::TensorAtom;
using softdev::TensorElement;
using softdev::TensorKind;
using softdev::TensorMap;
using softdev::TensorSwizzle;

namespace {

constexpr uint64_t kMostElements = uint64_t{1} << 32;
constexpr uint64_t kStrideEnd = uint64_t{1} << 40;
constexpr uint32_t kMostInBox = 256, kMostPixels = 1024, kMostStep = 8;

// What all ways to describe a tensor have in common.
struct TensorDescription {
  CUtensorMap *out;
  CUtensorMapDataType type;
  cuuint32_t rank;
  const void *address;
  const cuuint64_t *dimensions, *strides;
  const cuuint32_t *steps;
  CUtensorMapInterleave interleave;
  CUtensorMapSwizzle swizzle;
  CUtensorMapL2promotion promotion;
  CUtensorMapFloatOOBfill fill;
};

template <class Enumeration>
bool is_known(Enumeration value, Enumeration last) {
  return static_cast<unsigned>(value) <= static_cast<unsigned>(last);
}

#define REQUIRE(condition, ...) \
  if (!(condition)) return refuse(CUDA_ERROR_INVALID_VALUE, __VA_ARGS__)

// What the newer kinds of elements, swizzling and copies need; NOT_SUPPORTED on other devices.
CUresult need_blackwell(const Context &context, bool needed, const char *what) {
  if (!needed || context.device().compute_major >= 10) return CUDA_SUCCESS;
  return refuse(CUDA_ERROR_NOT_SUPPORTED, "%s need compute capability 10.0", what);
}

// How chunks change places in shared memory.
CUresult describe_swizzling(const Context &context, CUtensorMapSwizzle swizzle, TensorMap *map) {
  const bool atoms = swizzle > CU_TENSOR_MAP_SWIZZLE_128B;
  if (CUresult bad = need_blackwell(context, atoms, "swizzled chunks of 32 and 64 bytes"))
    return bad;
  if (swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B_FLIP_8B)
    return refuse(CUDA_ERROR_NOT_SUPPORTED,
                  "this device flips no 8 bytes: no document says in which of the rows");
  map->swizzle = atoms ? TensorSwizzle::Bytes128 : static_cast<TensorSwizzle>(swizzle);
  if (atoms)
    map->atom =
        swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B ? TensorAtom::Bytes32 : TensorAtom::Bytes64;
  if (!is_padded(map->element)) return CUDA_SUCCESS;
  const bool small_chunks = map->atom != TensorAtom::Bytes64;
  REQUIRE(map->swizzle == TensorSwizzle::None ||
              (map->swizzle == TensorSwizzle::Bytes128 &&
               (small_chunks || map->element == TensorElement::U6Padded)),
          "elements of this type are not swizzled so");
  return CUDA_SUCCESS;
}

// Checks what is asked for, and fills a map with it; NOT_SUPPORTED for what only other devices do.
CUresult describe_tensor(const Context &context, const TensorDescription &from,
                         cuuint32_t least_rank, TensorMap *map) {
  if (context.device().compute_major < 9)
    return refuse(CUDA_ERROR_NOT_SUPPORTED, "tensor maps need compute capability 9.0");
  REQUIRE(from.out && address_of(from.out) % kTensorMapAlignment == 0,
          "the map's place is NULL or no multiple of %u", kTensorMapAlignment);
  REQUIRE(is_known(from.type, CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B), "%u is no data type",
          static_cast<unsigned>(from.type));
  REQUIRE(is_known(from.interleave, CU_TENSOR_MAP_INTERLEAVE_32B), "%u is no interleaving",
          static_cast<unsigned>(from.interleave));
  REQUIRE(is_known(from.swizzle, CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B), "%u is no swizzling",
          static_cast<unsigned>(from.swizzle));
  REQUIRE(is_known(from.promotion, CU_TENSOR_MAP_L2_PROMOTION_L2_256B), "%u is no promotion",
          static_cast<unsigned>(from.promotion));
  REQUIRE(is_known(from.fill, CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA), "%u is no fill",
          static_cast<unsigned>(from.fill));
  map->element = static_cast<TensorElement>(from.type);
  const bool small = map->element >= TensorElement::U4;
  if (CUresult bad = need_blackwell(context, small, "elements of 4 and 6 bits")) return bad;
  const bool interleaved = from.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE;
  const bool by_32 = from.interleave == CU_TENSOR_MAP_INTERLEAVE_32B;
  if (interleaved) least_rank = 3;
  REQUIRE(from.rank >= least_rank && from.rank <= kTensorRanks, "%u dimensions, not %u to %u",
          from.rank, least_rank, kTensorRanks);
  const unsigned alignment = by_32 ? 32 : tensor_alignment(map->element);
  REQUIRE(address_of(from.address) % alignment == 0, "the address %p is no multiple of %u",
          from.address, alignment);
  REQUIRE(from.dimensions && from.steps && (from.strides || from.rank == 1),
          "an array that is needed is NULL");
  for (cuuint32_t d = 0; d < from.rank; ++d) {
    REQUIRE(from.dimensions[d] && from.dimensions[d] <= kMostElements,
            "dimension %u has %llu elements, not 1 to 2^32", d,
            static_cast<unsigned long long>(from.dimensions[d]));
    map->last[d] = static_cast<uint32_t>(from.dimensions[d] - 1);
    // Without interleaving, the step of dimension 0 is ignored.
    const bool counts = d > 0 || interleaved;
    REQUIRE(!counts || (from.steps[d] && from.steps[d] <= kMostStep),
            "element stride %u is %u, not 1 to %u", d, from.steps[d], kMostStep);
    map->steps[d] = counts ? static_cast<uint8_t>(from.steps[d]) : 1;
  }
  const unsigned unit = element_unit(map->element);
  REQUIRE(from.dimensions[0] % unit == 0, "dimension 0 has %llu elements, no multiple of %u",
          static_cast<unsigned long long>(from.dimensions[0]), unit);
  for (cuuint32_t d = 0; d + 1 < from.rank; ++d) {
    REQUIRE(from.strides[d] % alignment == 0 && from.strides[d] < kStrideEnd,
            "stride %u is %llu bytes, not a multiple of %u below 2^40", d,
            static_cast<unsigned long long>(from.strides[d]), alignment);
    map->strides[d] = from.strides[d];
  }
  REQUIRE(!by_32 || from.swizzle == CU_TENSOR_MAP_SWIZZLE_32B,
          "interleaving by 32 bytes needs swizzling by 32 bytes");
  REQUIRE(!interleaved || map->element != TensorElement::U6Padded,
          "elements of 6 bits are not interleaved");
  map->fills_nan = from.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  REQUIRE(!map->fills_nan || is_float(map->element),
          "integers and elements of 4 and 6 bits cannot be filled with NaN");
  if (interleaved)
    return refuse(CUDA_ERROR_NOT_SUPPORTED,
                  "this device has no interleaved tensors: no document says which stride the "
                  "slices of channels have");
  if (CUresult bad = describe_swizzling(context, from.swizzle, map)) return bad;
  map->rank = static_cast<uint8_t>(from.rank);
  map->address = address_of(from.address);
  return CUDA_SUCCESS;
}

// A row of the box, of so many elements, with what swizzling asks of it.
CUresult check_tensor_row(const TensorMap &map, uint32_t elements) {
  if (is_padded(map.element)) {
    REQUIRE(elements == kPaddedRow, "a row of the box has %u elements, and those of this type %u",
            elements, kPaddedRow);
    return CUDA_SUCCESS;
  }
  const uint32_t bits = elements * element_bits(map.element), span = swizzle_span(map.swizzle);
  REQUIRE(bits % 128 == 0, "a row of the box has %u bits, which is no multiple of 16 bytes", bits);
  REQUIRE(!span || bits / 8 <= span, "a row of the box has %u bytes, and swizzling has %u",
          bits / 8, span);
  return CUDA_SUCCESS;
}

// The box of pixels, whose corners are told from the tensor's, in a dimension.
CUresult describe_corners(int lower, int upper, int end, cuuint32_t dimension, TensorMap *map) {
  for (int corner : {lower, upper})
    REQUIRE(corner >= -end && corner < end, "a corner of the box is %d, not %d to %d", corner, -end,
            end - 1);
  REQUIRE(lower <= int64_t{map->last[dimension + 1]} + upper,
          "the box has no pixels between its corners in dimension %u", dimension + 1);
  map->lower[dimension] = static_cast<int16_t>(lower);
  map->upper[dimension] = static_cast<int16_t>(upper);
  return CUDA_SUCCESS;
}

CUresult describe_column(cuuint32_t channels, cuuint32_t pixels, TensorMap *map) {
  REQUIRE(channels && channels <= kMostInBox, "%u channels, not 1 to %u", channels, kMostInBox);
  REQUIRE(pixels && pixels <= kMostPixels, "%u pixels, not 1 to %u", pixels, kMostPixels);
  if (CUresult bad = check_tensor_row(*map, channels)) return bad;
  map->channels = static_cast<uint16_t>(channels);
  map->pixels = static_cast<uint16_t>(pixels);
  return CUDA_SUCCESS;
}

CUresult give_map(const TensorMap &map, CUtensorMap *out) {
  static_assert(sizeof map == sizeof *out);
  std::memcpy(static_cast<void *>(out), &map, sizeof map);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                cuuint32_t tensorRank, void *globalAddress,
                                const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                const cuuint32_t *boxDim, const cuuint32_t *elementStrides,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion l2Promotion,
                                CUtensorMapFloatOOBfill oobFill) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  TensorMap map;
  REQUIRE(boxDim, "the box is NULL");
  if (CUresult bad = describe_tensor(
          *context,
          {tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
           elementStrides, interleave, swizzle, l2Promotion, oobFill},
          1, &map))
    return bad;
  for (cuuint32_t d = 0; d < tensorRank; ++d) {
    REQUIRE(boxDim[d] && boxDim[d] <= kMostInBox, "side %u of the box is %u, not 1 to %u", d,
            boxDim[d], kMostInBox);
    map.box[d] = static_cast<uint16_t>(boxDim[d]);
  }
  if (CUresult bad = check_tensor_row(map, boxDim[0])) return bad;
  return give_map(map, tensorMap);
}

CUresult cuTensorMapEncodeIm2col(CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType,
                                 cuuint32_t tensorRank, void *globalAddress,
                                 const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
                                 const int *pixelBoxLowerCorner, const int *pixelBoxUpperCorner,
                                 cuuint32_t channelsPerPixel, cuuint32_t pixelsPerColumn,
                                 const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
                                 CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
                                 CUtensorMapFloatOOBfill oobFill) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  TensorMap map;
  REQUIRE(pixelBoxLowerCorner && pixelBoxUpperCorner, "a corner of the box is NULL");
  if (CUresult bad = describe_tensor(
          *context,
          {tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
           elementStrides, interleave, swizzle, l2Promotion, oobFill},
          3, &map))
    return bad;
  // The more dimensions there are, the fewer bits a corner has in each.
  const int end = 1 << (tensorRank == 3 ? 15 : tensorRank == 4 ? 7 : 4);
  for (cuuint32_t d = 0; d + 2 < tensorRank; ++d)
    if (CUresult bad =
            describe_corners(pixelBoxLowerCorner[d], pixelBoxUpperCorner[d], end, d, &map))
      return bad;
  if (CUresult bad = describe_column(channelsPerPixel, pixelsPerColumn, &map)) return bad;
  map.kind = TensorKind::Im2col;
  return give_map(map, tensorMap);
}

CUresult cuTensorMapEncodeIm2colWide(
    CUtensorMap *tensorMap, CUtensorMapDataType tensorDataType, cuuint32_t tensorRank,
    void *globalAddress, const cuuint64_t *globalDim, const cuuint64_t *globalStrides,
    int pixelBoxLowerCornerWidth, int pixelBoxUpperCornerWidth, cuuint32_t channelsPerPixel,
    cuuint32_t pixelsPerColumn, const cuuint32_t *elementStrides, CUtensorMapInterleave interleave,
    CUtensorMapIm2ColWideMode mode, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion l2Promotion,
    CUtensorMapFloatOOBfill oobFill) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  if (CUresult bad = need_blackwell(*context, true, "tensor maps for im2col::w")) return bad;
  TensorMap map;
  REQUIRE(is_known(mode, CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128), "%u is no mode",
          static_cast<unsigned>(mode));
  REQUIRE(interleave == CU_TENSOR_MAP_INTERLEAVE_NONE, "im2col::w has no interleaved tensors");
  REQUIRE(swizzle == CU_TENSOR_MAP_SWIZZLE_64B || swizzle == CU_TENSOR_MAP_SWIZZLE_128B ||
              swizzle == CU_TENSOR_MAP_SWIZZLE_128B_ATOM_32B,
          "im2col::w swizzles 64 or 128 bytes in chunks of 16, or 128 in chunks of 32");
  if (CUresult bad = describe_tensor(
          *context,
          {tensorMap, tensorDataType, tensorRank, globalAddress, globalDim, globalStrides,
           elementStrides, interleave, swizzle, l2Promotion, oobFill},
          3, &map))
    return bad;
  if (CUresult bad =
          describe_corners(pixelBoxLowerCornerWidth, pixelBoxUpperCornerWidth, 1 << 15, 0, &map))
    return bad;
  const bool all = mode == CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;  // pixelsPerColumn is ignored
  if (CUresult bad = describe_column(channelsPerPixel, all ? 128 : pixelsPerColumn, &map))
    return bad;
  map.kind = all ? TensorKind::Wide128 : TensorKind::Wide;
  return give_map(map, tensorMap);
}

CUresult cuTensorMapReplaceAddress(CUtensorMap *tensorMap, void *globalAddress) {
  std::shared_ptr<Context> context;
  if (CUresult bad = enter(&context)) return bad;
  REQUIRE(tensorMap && address_of(tensorMap) % kTensorMapAlignment == 0,
          "the map's place is NULL or no multiple of %u", kTensorMapAlignment);
  TensorMap map;
  std::memcpy(static_cast<void *>(&map), tensorMap, sizeof map);
  REQUIRE(map.mark == TensorMap::kMark, "these 128 bytes are no tensor map of this device");
  REQUIRE(map.element < TensorElement::Count, "these 128 bytes are no tensor map of this device");
  const unsigned alignment = tensor_alignment(map.element);
  REQUIRE(address_of(globalAddress) % alignment == 0, "the address %p is no multiple of %u",
          globalAddress, alignment);
  map.address = address_of(globalAddress);
  return give_map(map, tensorMap);
}

#undef REQUIRE
