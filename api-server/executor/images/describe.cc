#include "images/describe.h"

#include <algorithm>

namespace outboard {

uint8_t blocks_for(const Driver &driver, CUfunction function, int threads, size_t shared,
                   unsigned flags) {
  int blocks = 0;
  const CUresult result = driver.cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
      &blocks, function, threads, shared, flags);
  if (result != CUDA_SUCCESS || blocks < 0 || blocks >= WIRE_OCCUPANCY_UNKNOWN) {
    return WIRE_OCCUPANCY_UNKNOWN;
  }
  return static_cast<uint8_t>(blocks);
}

wire_description describe_function(const Driver &driver, CUfunction function) {
  wire_description description{};
  std::fill_n(description.blocks, WIRE_OCCUPANCY_SIZES, WIRE_OCCUPANCY_UNKNOWN);
  for (int i = 0; i < WIRE_FUNCTION_ATTRIBUTES; i++) {
    const CUresult result = driver.cuFuncGetAttribute(
        &description.attributes[i], static_cast<CUfunction_attribute>(i), function);
    if (result == CUDA_SUCCESS) {
      description.known |= 1u << i;
    } else if (i == CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK) {
      return description;  // a kernel that the device cannot run
    }
  }
  const int most = description.attributes[CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK];
  for (int i = 0; i < WIRE_OCCUPANCY_SIZES; i++) {
    description.blocks[i] =
        i * WIRE_WARP >= most
            ? 0
            : blocks_for(driver, function, std::min((i + 1) * WIRE_WARP, most), 0, 0);
  }
  return description;
}

}  // namespace outboard
