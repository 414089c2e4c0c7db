// Threads for what may take long or wait: large copies, and functions of the program that a
// stream calls. There are as many as are busy at once, so one that waits stops no other.
#pragma once

#include <signal.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

namespace softdev::driver {

// While one lives, threads that this thread starts take no signals (abi_signals.h).
class SignalsBlocked {
 public:
  SignalsBlocked();
  ~SignalsBlocked();

 private:
  sigset_t before_;
};

// Starts a thread that no signal lands on and nobody joins. False when none can be had.
bool start_thread(std::function<void()> body);

class Helpers {
 public:
  static constexpr unsigned kMostThreads = 256;
  explicit Helpers(unsigned most_threads = kMostThreads) : most_threads_(most_threads) {}
  // False when no thread could be had for it; the caller runs it itself then.
  bool post(std::function<void()> work);

 private:
  void serve();

  const unsigned most_threads_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<std::function<void()>> queue_;
  unsigned idle_ = 0, threads_ = 0;
};

}  // namespace softdev::driver
