// A launch group: launches of one stream that the gate measures together, between two events.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <vector>

#include "base/driver.h"
#include "gate/kernel_times.h"

namespace outboard {

// The clock by which work is measured and waited for, in nanoseconds.
inline int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Divides a number by weights that come one after the other, so that the parts add up to it.
class Shares {
 public:
  // `weights` is the sum of all weights that will come.
  Shares(uint64_t whole, double weights) : whole_(whole), weights_(weights) {}
  // Returns the part for the next weight.
  uint64_t next(double weight) {
    weight_ += weight;
    const double part = weights_ > 0 ? static_cast<double>(whole_) * weight_ / weights_ : 0;
    const uint64_t until = std::min(static_cast<uint64_t>(part + 0.5), whole_);
    const uint64_t share = until - given_;
    given_ = until;
    return share;
  }

 private:
  const uint64_t whole_;
  const double weights_;
  double weight_ = 0;
  uint64_t given_ = 0;
};

// Launches of one stream that are measured together. With `hold_put` a hold stands before them,
// which is `released` when they may run. Until then the group `waits()`; the atomic `held` says the
// same to the meter's thread. `counted` says that the group is charged and running, `full` that
// nothing more may join it, `closed` that nothing more does, and `broken` that it has no events and
// cannot be measured.
struct LaunchGroup {
  // The launches of one kernel in the group.
  struct Use {
    KernelCost *kernel;
    uint64_t launches;
    uint64_t blocks;
    uint64_t predicted;
    EnteredTime entered{};  // what is counted of it while it runs for long
  };

  CUevent start = nullptr;
  CUevent end = nullptr;

  CUstream stream = nullptr;
  uint64_t streams_gone = 0;  // how many streams had been destroyed when it was begun: another
                              // stream may have got the address of one of those
  std::vector<Use> uses;
  uint64_t launches = 0;
  uint64_t blocks = 0;
  uint64_t predicted = 0;
  uint64_t sequence = 0;  // its number, in the order in which groups are begun
  bool known = true;      // all its kernels have been measured before
  bool full = false;      // no launch is added any more

  // What the meter may know of a group while the leader still adds to it.
  const KernelCost *first = nullptr;     // the kernel of its first launch
  std::atomic<bool> held{false};         // a hold stands before it that is not released
  std::atomic<uint64_t> with_driver{0};  // launches that the driver is known to have
  std::atomic<bool> broken{false};       // the driver has refused an event
  std::atomic<bool> closed{false};       // its end event is recorded, and no launch is added

  // What is counted of it, under the lock of Holds.
  bool counted = false;          // as one that runs
  bool counted_unknown = false;  // as one of those that are not `known`
  uint64_t counted_launches = 0;
  uint64_t unit = 0;       // the unit of `charged`
  uint64_t charged = 0;    // quota tokens
  uint64_t in_flight = 0;  // nanoseconds
  uint64_t ran = 0;        // nanoseconds that it has cost so far

  // The meter's: when it was first seen to run, in nanoseconds of CLOCK_MONOTONIC, and how many
  // nanoseconds of the device it has cost since. 0: it was not seen yet.
  int64_t runs_since = 0;
  uint64_t spent = 0;
  bool overdue = false;  // the session was told that it runs for too long

  // For the session's trace: its first and last command, and when the first one came.
  struct {
    uint64_t first = 0, last = 0;
    uint64_t since = 0;
  } traced;

  bool hold_put = false;
  bool released = false;
  // The holds' own: which one of its stream's holds it is, whether the stream has come to it, and
  // the group of the stream's next one.
  uint32_t hold_number = 0;
  bool has_come = false;
  LaunchGroup *next_held = nullptr;

  // Whether it waits behind its hold. `held` says the same to the meter's thread.
  bool waits() const { return hold_put && !released; }
  // Whether the driver has work of it and the gate does not hold that back.
  bool begun() const {
    return !held && (closed || with_driver.load(std::memory_order_acquire) > 0);
  }
  // Whether both are of one stream, and this one comes after the other.
  bool follows(const LaunchGroup &other) const {
    return stream == other.stream && streams_gone == other.streams_gone &&
           sequence > other.sequence;
  }

  // Makes it as new, but for its events.
  void clear() {
    uses.clear();
    launches = blocks = predicted = sequence = unit = charged = in_flight = ran = 0;
    counted_launches = 0;
    streams_gone = 0;
    first = nullptr;
    held.store(false, std::memory_order_relaxed);
    with_driver.store(0, std::memory_order_relaxed);
    broken.store(false, std::memory_order_relaxed);
    closed.store(false, std::memory_order_relaxed);
    traced = {};
    runs_since = 0;
    spent = 0;
    overdue = false;
    hold_number = 0;
    next_held = nullptr;
    known = true;
    full = counted = counted_unknown = hold_put = released = has_come = false;
  }
};

}  // namespace outboard
