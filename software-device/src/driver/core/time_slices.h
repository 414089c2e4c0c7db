// That a device is several processes' (the trait `time-slices`), whose kernels run in turn: one
// process's for a slice of time, then the next one's. What a kernel has computed so far stays, it
// goes on in the next slice. Slices end only while another process waits for one.
//
// Whose turn it is is a lock on a file, which the kernel gives back when the process ends, however
// it ends. Who comes next is another one: it is held by the one that waits for the first, so that
// whoever had a slice comes behind all who wait.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>

#include "engine.h"

namespace softdev::driver {

class TimeSlices final : public Turns {
 public:
  // Null, and a line in the log, where the file cannot be had.
  static std::unique_ptr<TimeSlices> open(const std::string &path);
  ~TimeSlices() override;

  void enter() override;
  void leave() override;
  void glance() override;

 private:
  using Clock = std::chrono::steady_clock;

  explicit TimeSlices(int file) : file_(file) {}

  void enter(std::unique_lock<std::mutex> &lock);
  void give_back();
  bool somebody_waits() const;

  const int file_;
  std::mutex mutex_;
  std::condition_variable changed_;
  enum class Turn { kOthers, kAwaited, kOurs } turn_ = Turn::kOthers;
  unsigned inside_ = 0;  // workers
  bool over_ = false;    // those who are inside leave as soon as they can
  std::atomic<Clock::rep> until_{0};
};

}  // namespace softdev::driver
