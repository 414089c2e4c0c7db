// Tensor maps: numbers that the driver packs. They name memory as a kernel's parameters do, so
// nothing of them is looked up.
#include <array>
#include <cstring>

#include "base/served_values.h"
#include "dispatch.h"
#include "session/session.h"

namespace outboard {
namespace {

using Map = CUtensorMap;
static_assert(sizeof(Map) == WIRE_TENSOR_MAP_BYTES);

bool is_served(const wire_tensor &t) {
  return t.kind < WIRE_TENSOR_KINDS && t.type <= CU_TENSOR_MAP_DATA_TYPE_16U6_ALIGN16B &&
         t.rank >= (t.kind == WIRE_TENSOR_TILED ? 1 : 3) && t.rank <= 5 &&
         t.interleave <= CU_TENSOR_MAP_INTERLEAVE_32B &&
         t.swizzle <= CU_TENSOR_MAP_SWIZZLE_128B_ATOM_64B &&
         t.promotion <= CU_TENSOR_MAP_L2_PROMOTION_L2_256B &&
         t.fill <= CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA &&
         t.mode <= CU_TENSOR_MAP_IM2COL_WIDE_MODE_W128;
}

CUresult encode(const Driver &driver, const wire_tensor &t, uint64_t address, Map *map) {
  const auto type = static_cast<CUtensorMapDataType>(t.type);
  const auto interleave = static_cast<CUtensorMapInterleave>(t.interleave);
  const auto swizzle = static_cast<CUtensorMapSwizzle>(t.swizzle);
  const auto promotion = static_cast<CUtensorMapL2promotion>(t.promotion);
  const auto fill = static_cast<CUtensorMapFloatOOBfill>(t.fill);
  void *at = reinterpret_cast<void *>(address);
  switch (t.kind) {
    case WIRE_TENSOR_TILED:
      if (!driver.cuTensorMapEncodeTiled) return CUDA_ERROR_NOT_SUPPORTED;
      return driver.cuTensorMapEncodeTiled(map, type, t.rank, at, t.sizes, t.strides, t.box,
                                           t.steps, interleave, swizzle, promotion, fill);
    case WIRE_TENSOR_IM2COL:
      if (!driver.cuTensorMapEncodeIm2col) return CUDA_ERROR_NOT_SUPPORTED;
      return driver.cuTensorMapEncodeIm2col(map, type, t.rank, at, t.sizes, t.strides, t.lower,
                                            t.upper, t.channels, t.pixels, t.steps, interleave,
                                            swizzle, promotion, fill);
    default:
      if (!driver.cuTensorMapEncodeIm2colWide) return CUDA_ERROR_NOT_SUPPORTED;
      return driver.cuTensorMapEncodeIm2colWide(
          map, type, t.rank, at, t.sizes, t.strides, t.lower[0], t.upper[0], t.channels, t.pixels,
          t.steps, interleave, static_cast<CUtensorMapIm2ColWideMode>(t.mode), swizzle, promotion,
          fill);
  }
}

}  // namespace

void handle_TensorMapEncode(Session &s, const wire_TensorMapEncode &q,
                            std::span<const uint8_t> tensor) {
  wire_TensorMapEncode_reply reply{};
  wire_tensor t;
  if (tensor.size() != sizeof t) return s.violation("a description of a tensor has another size");
  memcpy(&t, tensor.data(), sizeof t);
  alignas(128) std::array<Map, WIRE_TENSOR_MAPS> maps{};
  CUresult result =
      is_served(t) ? encode(s.driver(), t, q.address, &maps[0]) : CUDA_ERROR_INVALID_VALUE;
  size_t count = 0;
  if (result == CUDA_SUCCESS) {
    const bool learnable =
        encode(s.driver(), t, q.address ^ WIRE_TENSOR_CHANGE1, &maps[1]) == CUDA_SUCCESS &&
        encode(s.driver(), t, q.address ^ WIRE_TENSOR_CHANGE2, &maps[2]) == CUDA_SUCCESS;
    count = learnable ? maps.size() : 1;
  }
  reply.maps_size = static_cast<uint32_t>(count * sizeof(Map));
  s.answers().send(q.request.request, result, &reply.reply, sizeof reply, maps.data(),
                   reply.maps_size);
}

void handle_TensorMapReplace(Session &s, const wire_TensorMapReplace &q,
                             std::span<const uint8_t> bytes) {
  wire_TensorMapReplace_reply reply{};
  alignas(128) Map map;
  if (bytes.size() != sizeof map) return s.violation("a tensor map has another size");
  memcpy(static_cast<void *>(&map), bytes.data(), sizeof map);
  const CUresult result =
      s.driver().cuTensorMapReplaceAddress
          ? s.driver().cuTensorMapReplaceAddress(&map, reinterpret_cast<void *>(q.address))
          : CUDA_ERROR_NOT_SUPPORTED;
  reply.map_size = result == CUDA_SUCCESS ? sizeof map : 0;
  s.answers().send(q.request.request, result, &reply.reply, sizeof reply, &map, reply.map_size);
}

}  // namespace outboard
