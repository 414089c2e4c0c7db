// Threads for what may take long or wait: large copies, and functions of the program that a
// stream calls. There are as many as are busy at once, so one that waits stops no other.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace softdev::driver {

class Helpers {
 public:
  // False when no thread could be had for it; the caller runs it itself then.
  bool post(std::function<void()> work);

 private:
  void serve();

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> queue_;
  unsigned idle_ = 0, threads_ = 0;
};

}  // namespace softdev::driver
