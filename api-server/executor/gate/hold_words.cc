#include "gate/hold_words.h"

#include <atomic>

#include "base/error.h"

namespace outboard {

HoldWords::HoldWords(const Driver &driver) : driver_(driver) {
  void *words = nullptr;
  if (driver_.cuMemHostAlloc(&words, kMost * sizeof *words_, CU_MEMHOSTALLOC_DEVICEMAP) !=
      CUDA_SUCCESS) {
    throw Error("OB_DEVICE_OPEN",
                "the driver refuses pinned memory for words by which streams are held");
  }
  words_ = static_cast<Words *>(words);
  scrub();
}

HoldWords::~HoldWords() { driver_.cuMemFreeHost(words_); }

void HoldWords::scrub() {
  for (size_t i = 0; i < kMost; i++) {
    std::atomic_ref(words_[i].reached).store(0);
    std::atomic_ref(words_[i].released).store(0);
  }
}

}  // namespace outboard
