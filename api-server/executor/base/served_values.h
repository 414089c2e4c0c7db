// Which numbers of enumerations, and which flags, a guest may hand to the driver: those that we
// know. A driver that is newer than this server may know others, but nothing here would count or
// clean up what they make.
#pragma once

#include <cstdint>

#include "abi_launch.h"
#include "cuda_driver.h"

namespace outboard {

// Whether `value`, which may be any number as it comes out of a union, is one of least to most.
template <class Value>
constexpr bool is_between(Value value, Value least, Value most) {
  return static_cast<int64_t>(value) >= static_cast<int64_t>(least) &&
         static_cast<int64_t>(value) <= static_cast<int64_t>(most);
}

// Whether these are CUmemAccess_flags that we know.
constexpr bool is_served_access(uint32_t flags) {
  return flags == CU_MEM_ACCESS_FLAGS_PROT_NONE || flags == CU_MEM_ACCESS_FLAGS_PROT_READ ||
         flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
}

// Whether these are flags of arrays that we know: layers, surfaces, cubes, gathers. An array
// without memory of its own would be counted and overwritten as if it had some.
constexpr bool is_served_array(uint32_t flags) { return (flags & ~0xfu) == 0; }

// Whether a wait for this value can end at all: no word has a bit of none, or lacks one of none.
// Nobody could let a stream go on that began one.
constexpr bool can_be_met(uint32_t operation, uint32_t flags, uint64_t value) {
  const uint64_t all = operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ? UINT64_MAX : UINT32_MAX;
  switch (flags & ~static_cast<uint32_t>(CU_STREAM_WAIT_VALUE_FLUSH)) {
    case CU_STREAM_WAIT_VALUE_AND:
      return (value & all) != 0;
    case CU_STREAM_WAIT_VALUE_NOR:
      return (value & all) != all;
    default:
      return true;
  }
}

// Whether this is a wait or a write in a stream or a graph whose flags we know and that can end.
constexpr bool is_served_value(uint32_t operation, uint32_t flags, uint64_t value) {
  switch (operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
      return can_be_met(operation, flags, value) &&
             (flags & ~static_cast<uint32_t>(CU_STREAM_WAIT_VALUE_FLUSH)) <=
                 CU_STREAM_WAIT_VALUE_NOR;
    case CU_STREAM_MEM_OP_WRITE_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64:
      return flags <= CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
    case CU_STREAM_MEM_OP_BARRIER:
      return flags <= CU_STREAM_MEMORY_BARRIER_TYPE_GPU;
    default:
      return false;
  }
}

// Whether a stream may be given this attribute. How it waits is left to the guest's library.
inline bool is_served_stream(CUstreamAttrID id, const CUstreamAttrValue &value) {
  switch (id) {
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return abi_launch_attribute_sound(id, &value);
    default:
      return false;
  }
}

inline bool is_served(const CUDA_TEXTURE_DESC &texture) {
  // Integers as they are, coordinates from 0 to 1, sRGB, no trilinear optimisation, seamless cubes.
  constexpr unsigned kFlags = 0x73;
  for (CUaddress_mode mode : texture.addressMode)
    if (!is_between(mode, CU_TR_ADDRESS_MODE_WRAP, CU_TR_ADDRESS_MODE_BORDER)) return false;
  const auto filter = [](CUfilter_mode mode) {
    return is_between(mode, CU_TR_FILTER_MODE_POINT, CU_TR_FILTER_MODE_LINEAR);
  };
  return filter(texture.filterMode) && filter(texture.mipmapFilterMode) &&
         (texture.flags & ~kFlags) == 0;
}

inline bool is_served(const CUDA_RESOURCE_VIEW_DESC &view) {
  return is_between(view.format, CU_RES_VIEW_FORMAT_NONE, CU_RES_VIEW_FORMAT_UNSIGNED_BC7);
}

}  // namespace outboard
