// Modules that are loaded before the guest asks for them: those that the program's last session
// used. The guest has been told which they are. Where it needs one, it waits for the answer to that
// load, and then takes the module without asking for it.
//
// A thread of the pool loads them while the leader takes them, so there is a lock.
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

// The expected modules of a session that are loaded and not taken. Any thread.
class ExpectedModules {
 public:
  // Keeps the module with this place among those expected. False, and it is still the caller's,
  // where there is one.
  bool keep(uint32_t index, std::unique_ptr<Module> &module);
  // Takes the module with this place. Null when it is not there, or has been taken.
  std::unique_ptr<Module> take(uint32_t index);
  // Finds a variable of the module with this place. CUDA_ERROR_INVALID_HANDLE when it is not there.
  CUresult variable(const Driver &driver, uint32_t index, const std::string &name, Variable *found);
  // Unloads the modules that nobody took. Returns the first error.
  CUresult unload(const Driver &driver);

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<Module>> modules_;
};

// The modules that a session has used, which the program's next session may expect. There are few,
// as the answers to their loads must fit into a socket that nobody reads yet. Any thread.
class UsedModules {
 public:
  static constexpr size_t kMost = WIRE_EXPECTED_MAX;
  static constexpr size_t kMostAnswerBytes = 64 << 10;

  // Notes that a module is used. True when it is listed from now on, and was not before.
  bool note(const Module &module);
  std::vector<ExpectedModule> list();

 private:
  std::mutex mutex_;
  std::vector<ExpectedModule> modules_;  // in the order of their first use
  size_t answer_bytes_ = 0;
};

}  // namespace outboard
