// Modules that are loaded before the guest asks for them: those that the program's last session
// used. The guest has been told which, waits for their answers where it needs one, and takes the
// module; it need not ask.
//
// Loads happen on a thread of the pool, beside the leader, who takes: hence the lock.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "images/module.h"

namespace outboard {

struct ExpectedModule {
  Hash hash{};
  uint64_t size = 0;  // of the image
};

class ExpectedModules {
 public:
  void keep(uint32_t index, std::unique_ptr<Module> &module);
  // Null: it is not there, or has been taken.
  std::unique_ptr<Module> take(uint32_t index);
  // Those that nobody took; the first error.
  CUresult unload(const Driver &driver);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Module>> modules_;
};

// What a session has used and the program's next one may expect. Small: what is told of it all must
// fit into sockets that nobody reads yet.
class UsedModules {
 public:
  static constexpr size_t kMost = WIRE_EXPECTED_MAX;
  static constexpr size_t kMostAnswerBytes = 64 << 10;

  // True: it is the first time.
  bool note(const Module &module);
  std::vector<ExpectedModule> list();

 private:
  std::mutex mutex_;
  std::vector<ExpectedModule> modules_;  // in the order of their first use
  size_t answer_bytes_ = 0;
};

}  // namespace outboard
