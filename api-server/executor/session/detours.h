// Downloads that go by a detour (download.h), and loads of code: never at a time. A driver that
// loads code waits for all work, and lets nobody start any meanwhile; and a detour has held a
// stream of the guest until copies are done that are still to be queued.
//
// Lock: mutex_, with which nothing is called.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace outboard {

class Detours {
 public:
  // For the leader, before it takes what others wait for. Waits for loads for a moment, and not for
  // longer: one may wait for what only the leader hears. False: there must be no detour.
  bool begin() {
    constexpr std::chrono::milliseconds kMoment{100};
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, kMoment, [this] { return loads_ == 0; })) return false;
    ++detours_;
    return true;
  }
  // Any thread.
  void end() {
    std::lock_guard lock(mutex_);
    if (--detours_ > 0) return;
    // They go now, whatever begins before they wake.
    loads_ += waiting_;
    waiting_ = 0;
    ++turn_;
    changed_.notify_all();
  }

  // A call of the driver or of a library that may load code, by another thread than the leader:
  // waits until there is no detour.
  class Load {
   public:
    explicit Load(Detours &detours) : detours_(detours) {
      std::unique_lock lock(detours_.mutex_);
      if (detours_.detours_ == 0) {
        ++detours_.loads_;
        return;
      }
      ++detours_.waiting_;
      const unsigned turn = detours_.turn_;
      detours_.changed_.wait(lock, [this, turn] { return detours_.turn_ != turn; });
    }
    ~Load() {
      std::lock_guard lock(detours_.mutex_);
      if (--detours_.loads_ == 0) detours_.changed_.notify_all();
    }
    Load(const Load &) = delete;
    Load &operator=(const Load &) = delete;

   private:
    Detours &detours_;
  };

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  unsigned detours_ = 0, loads_ = 0, waiting_ = 0;
  unsigned turn_ = 0;  // how often there were none any more
};

}  // namespace outboard
