// Holds of streams whose downloads take a detour: what is left of one is copied in a stream aside,
// and its own waits at a word in pinned memory of the host until that is done
// (commands/download.h). They are not the gate's holds (gate/holds.h), which wait for quota tokens.
// No thread waits with them: a driver may call all host functions on one thread, and one that
// waited would keep those of the program. A word only grows, and a stream waits until it is at
// least so much: so it can be used again at once, whether or not the stream has seen it by then.
//
// Lock: mutex_, innermost.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

#include "gate/gate.h"

namespace outboard {

class DetourHolds {
 public:
  // Throws Error when the driver has no memory for them.
  explicit DetourHolds(const Driver &driver);
  ~DetourHolds();
  DetourHolds(const DetourHolds &) = delete;
  DetourHolds &operator=(const DetourHolds &) = delete;

  // What holds a stream; it holds none where `word` is null.
  struct Hold {
    uint32_t *word = nullptr;
    uint32_t until = 0;
  };

  // Any thread. Makes the stream wait from there on, until let_go. The driver's result, and
  // CUDA_ERROR_OUT_OF_MEMORY when there are kMost of them; then nothing waits.
  CUresult hold(const Gate::Pass &pass, CUstream stream, Hold *hold);
  // Lets it go on once what is queued on `after`, a stream that nothing holds, is done.
  void let_go(const Gate::Pass &pass, CUstream after, Hold *hold);

  // Whether any stream is held. Any thread.
  bool any() {
    std::lock_guard lock(mutex_);
    return free_.size() < kMost;
  }

  // Overwrites the words, which kernels can reach. No stream is held.
  void scrub();

  static constexpr size_t kMost = 4096;

 private:
  void give(uint32_t *word);

  const Driver &driver_;
  uint32_t *words_ = nullptr;
  std::mutex mutex_;
  std::vector<uint32_t *> free_;
};

}  // namespace outboard
