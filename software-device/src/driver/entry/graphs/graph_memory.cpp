// Entry points: how much memory graphs have allocated on a device.
#include "entry/graphs/graphs.h"
#include "graphs/memory.h"

using namespace softdev::driver;

namespace {

CUresult find(CUdevice ordinal, const void *value) {
  if (CUresult bad = enter()) return bad;
  if (!driver()->device(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  return value ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

extern "C" {

CUresult cuDeviceGraphMemTrim(CUdevice ordinal) {
  if (CUresult bad = find(ordinal, &ordinal)) return bad;
  return guarded([&] { return trim_graph_memory(ordinal); });
}

// What is used and what is reserved is the same: memory is not kept for graphs that are gone.
CUresult cuDeviceGetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                      void *value) {
  if (CUresult bad = find(ordinal, value)) return bad;
  return guarded([&] {
    GraphMemoryUse use = graph_memory_use(ordinal);
    auto *bytes = static_cast<cuuint64_t *>(value);
    switch (attribute) {
      case CU_GRAPH_MEM_ATTR_USED_MEM_CURRENT:
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT:
        *bytes = use.now;
        return CUDA_SUCCESS;
      case CU_GRAPH_MEM_ATTR_USED_MEM_HIGH:
      case CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH:
        *bytes = use.high;
        return CUDA_SUCCESS;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  });
}

CUresult cuDeviceSetGraphMemAttribute(CUdevice ordinal, CUgraphMem_attribute attribute,
                                      void *value) {
  if (CUresult bad = find(ordinal, value)) return bad;
  bool high = attribute == CU_GRAPH_MEM_ATTR_USED_MEM_HIGH ||
              attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_HIGH;
  if (!high || *static_cast<cuuint64_t *>(value) != 0)
    return refuse(CUDA_ERROR_INVALID_VALUE, "the high-water marks can be set, and to 0 only");
  return guarded([&] {
    reset_graph_memory_high(ordinal);
    return CUDA_SUCCESS;
  });
}

}  // extern "C"
