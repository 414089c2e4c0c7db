// A launch group: launches of one stream that the gate measures together, between two events.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <vector>

#include "base/driver.h"
#include "gate/kernel_times.h"

namespace outboard {

class Gate;

// Divides a number by weights, one after the other, so that the parts make up the whole.
class Shares {
 public:
  Shares(uint64_t whole, double weights) : whole_(whole), weights_(weights) {}
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

struct LaunchGroup {
  // Launches of one kernel.
  struct Use {
    KernelCost *kernel;
    uint64_t launches;
    uint64_t blocks;
    uint64_t predicted;
    EnteredTime entered{};  // while it runs for long
  };

  Gate *gate = nullptr;
  CUevent start = nullptr;
  CUevent end = nullptr;

  CUstream stream = nullptr;
  uint64_t streams_gone = 0;  // when it was begun: its stream may have got another's place then
  std::vector<Use> uses;
  uint64_t launches = 0;
  uint64_t blocks = 0;
  uint64_t predicted = 0;
  uint64_t sequence = 0;  // in order of posting
  bool known = true;      // all its kernels have been measured before
  bool full = false;      // nothing is to be added

  // What the meter may know of a group while the leader still adds to it.
  const KernelCost *first = nullptr;  // of its launches
  std::atomic<bool> held{false};      // by a hold that is not released
  std::atomic<uint64_t> posted{0};    // launches that the driver is known to have
  std::atomic<bool> broken{false};    // the driver took no events
  std::atomic<bool> closed{false};    // its end is posted; what it is of does not change any more

  // What the gate's counters have of it.
  bool counted = false;
  bool counted_unknown = false;
  uint64_t unit = 0;
  uint64_t charged = 0;
  uint64_t in_flight = 0;
  uint64_t ran = 0;  // it has cost so much so far, under the gate's lock

  // The meter's: since when it has been seen to run, and what that has cost so far. 0: not yet.
  int64_t runs_since = 0;
  uint64_t spent = 0;
  bool overdue = false;  // that has been told

  // For the session's trace: the commands it is of, and when its first one came.
  struct {
    uint64_t first = 0, last = 0;
    uint64_t since = 0;
  } traced;

  // With a hold, its work does not start before it is released.
  bool has_hold = false;
  bool released = false;

  // Whether the driver has work of it, and it may run as far as the gate goes.
  bool begun() const { return !held && (closed || posted.load(std::memory_order_acquire) > 0); }
  // Whether it comes after the other in the order of one stream.
  bool follows(const LaunchGroup &other) const {
    return stream == other.stream && streams_gone == other.streams_gone &&
           sequence > other.sequence;
  }

  void clear() {
    uses.clear();
    launches = blocks = predicted = sequence = unit = charged = in_flight = ran = 0;
    streams_gone = 0;
    first = nullptr;
    held.store(false, std::memory_order_relaxed);
    posted.store(0, std::memory_order_relaxed);
    broken.store(false, std::memory_order_relaxed);
    closed.store(false, std::memory_order_relaxed);
    traced = {};
    runs_since = 0;
    spent = 0;
    overdue = false;
    known = true;
    full = counted = counted_unknown = has_hold = released = false;
  }
};

}  // namespace outboard
