// Operations that end when something happens that nobody tells us of: a value that a kernel, the
// host or another process writes. One thread looks at all of them in turn.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "streams/operation.h"

namespace softdev::driver {

class Watcher {
 public:
  // Finishes `operation` soon after `happened` is true, or when its context has failed. `happened`
  // is called from one thread at a time and must not block.
  void watch(Work operation, std::function<bool()> happened);

 private:
  struct Watched {
    Work operation;
    std::function<bool()> happened;
  };
  void serve();
  static bool over(const Watched &watched);

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::vector<Watched> added_;
  bool serving_ = false;
};

}  // namespace softdev::driver
