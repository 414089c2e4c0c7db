#include "copies/detour_holds.h"

#include <atomic>

#include "base/error.h"

namespace outboard {

DetourHolds::DetourHolds(const Driver &driver) : driver_(driver) {
  void *words = nullptr;
  if (driver_.cuMemHostAlloc(&words, kMost * sizeof *words_, CU_MEMHOSTALLOC_DEVICEMAP) !=
      CUDA_SUCCESS) {
    throw Error("OB_DEVICE_OPEN",
                "the driver refuses pinned memory for words that streams wait at");
  }
  words_ = static_cast<uint32_t *>(words);
  for (size_t i = kMost; i-- > 0;) {
    words_[i] = 0;
    free_.push_back(&words_[i]);
  }
}

DetourHolds::~DetourHolds() { driver_.cuMemFreeHost(words_); }

void DetourHolds::give(uint32_t *word) {
  std::lock_guard lock(mutex_);
  free_.push_back(word);
}

void DetourHolds::scrub() {
  for (size_t i = 0; i < kMost; i++) std::atomic_ref(words_[i]).store(0);
}

CUresult DetourHolds::hold(const Gate::Pass &pass, CUstream stream, Hold *hold) {
  {
    std::lock_guard lock(mutex_);
    if (free_.empty()) return CUDA_ERROR_OUT_OF_MEMORY;
    hold->word = free_.back();
    free_.pop_back();
  }
  hold->until = std::atomic_ref(*hold->word).load() + 1;
  CUstreamBatchMemOpParams entry{};
  entry.waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  entry.waitValue.address = reinterpret_cast<CUdeviceptr>(hold->word);
  entry.waitValue.value = hold->until;
  entry.waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  const CUresult result = pass->cuStreamBatchMemOp_v2(stream, 1, &entry, 0);
  if (result != CUDA_SUCCESS) {
    give(hold->word);
    hold->word = nullptr;
  }
  return result;
}

void DetourHolds::let_go(const Gate::Pass &pass, CUstream after, Hold *hold) {
  if (!hold->word) return;
  CUstreamBatchMemOpParams entry{};
  entry.writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  entry.writeValue.address = reinterpret_cast<CUdeviceptr>(hold->word);
  entry.writeValue.value = hold->until;
  // Then the word may not be given to somebody else before it is written.
  if (pass->cuStreamBatchMemOp_v2(after, 1, &entry, 0) != CUDA_SUCCESS ||
      driver_.cuStreamSynchronize(after) != CUDA_SUCCESS) {
    std::atomic_ref(*hold->word).store(hold->until);
  }
  give(hold->word);
  *hold = {};
}

}  // namespace outboard
