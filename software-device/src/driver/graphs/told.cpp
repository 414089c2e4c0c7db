#include "graphs/told.h"

#include <algorithm>
#include <cstring>

#include "streams/launch.h"

namespace softdev::driver {

std::byte *Told::room(size_t bytes) {
  if (bytes > size_) {
    size_t size = std::max(bytes, 2 * size_);
    blocks_.push_back(std::make_unique<std::byte[]>(size));
    size_ = size;
  }
  return blocks_.back().get();
}

void Told::keep(const TaskRef &task, bool now, CUgraphNodeParams *params) {
  const bool told = current_ && now;
  if (params->type == CU_GRAPH_NODE_TYPE_KERNEL && params->kernel.kernelParams) {
    const auto &kernel = static_cast<const KernelTask &>(*task);
    const std::vector<uint8_t> &values = kernel.prepared.parameters;
    const size_t count = kernel.parameter_pointers.size();
    // Behind the pointers, where values of any type may lie.
    const size_t begin = (count * sizeof(void *) + 15) / 16 * 16;
    std::byte *at = room(begin + values.size());
    void **pointers = reinterpret_cast<void **>(at);
    if (!told) {
      memcpy(at + begin, values.data(), values.size());
      for (size_t i = 0; i < count; i++)
        pointers[i] = at + begin +
                      (static_cast<const uint8_t *>(kernel.parameter_pointers[i]) - values.data());
    }
    params->kernel.kernelParams = pointers;
  } else if (params->type == CU_GRAPH_NODE_TYPE_BATCH_MEM_OP) {
    const size_t bytes = params->memOp.count * sizeof *params->memOp.paramArray;
    std::byte *at = room(bytes);
    if (!told) memcpy(at, params->memOp.paramArray, bytes);
    params->memOp.paramArray = reinterpret_cast<CUstreamBatchMemOpParams *>(at);
  } else {
    return;
  }
  current_ = now;
}

}  // namespace softdev::driver
