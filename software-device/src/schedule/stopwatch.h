// How long a worker has worked, and for whom.
//
// The clock of a thread, which stands still while others have the processor, costs more than a
// small kernel. So short runs are timed by the wall: a thread that lost its processor is away for
// longer than that. Long ones are timed by the thread's own clock.
#pragma once

#include <time.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

namespace softdev {

class Stopwatch {
 public:
  // What follows is work for `account`, which may be null.
  void work_for(std::atomic<uint64_t> *account) {
    if (account == account_) return;
    stop();
    if (!account) return;
    account_ = account;
    begin();
  }

  // Called often: enters what has accumulated, now and then.
  void glance() {
    if (!account_ || ++glances_ < kGlances) return;
    enter();
    begin();
  }

  void stop() {
    if (!account_) return;
    enter();
    account_ = nullptr;
  }

 private:
  static constexpr int64_t kShort = 200'000;  // ns
  static constexpr unsigned kGlances = 16;

  static int64_t now(clockid_t clock) {
    timespec t;
    clock_gettime(clock, &t);
    return int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
  }

  void begin() {
    glances_ = 0;
    // After a long run another one is likely.
    if (long_) own_ = now(CLOCK_THREAD_CPUTIME_ID);
    wall_ = now(CLOCK_MONOTONIC);
  }

  void enter() {
    int64_t spent = now(CLOCK_MONOTONIC) - wall_;
    long_ = spent >= kShort;
    if (long_) {
      const int64_t own = now(CLOCK_THREAD_CPUTIME_ID);
      spent = std::clamp<int64_t>(own - own_, 0, spent);
      own_ = own;
    }
    account_->fetch_add(static_cast<uint64_t>(spent), std::memory_order_relaxed);
  }

  std::atomic<uint64_t> *account_ = nullptr;
  int64_t wall_ = 0;
  int64_t own_ = 0;  // as of some time before wall_
  unsigned glances_ = 0;
  bool long_ = false;
};

}  // namespace softdev
