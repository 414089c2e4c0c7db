// Downloads under way, and what may not overtake them: the answer of a synchronisation that covers
// a download follows the download's own.
//
// Lock: mutex_; the driver is asked about events with it held.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <vector>

#include "base/driver.h"
#include "base/stream.h"

namespace outboard {

// One download.
struct Transfer {
  uint64_t sequence;  // the number of its command
  Stream stream;
  CUevent last = nullptr;  // is behind its last copy, once all are queued
};

// The downloads of a session that have not been answered.
class Transfers {
 public:
  explicit Transfers(const Driver &driver) : driver_(driver) {}

  // All of these may be called by any thread.
  //
  // Whether any download has not been answered.
  bool pending() const { return pending_.load(std::memory_order_acquire) != 0; }
  // Returns how many downloads have not been answered.
  unsigned count() const { return pending_.load(std::memory_order_relaxed); }

  // Says that a download begins. `transfer` lives until `remove`.
  void add(Transfer *transfer);
  // Says that all copies of a download are queued, and that the event `last` is behind them.
  void queued(Transfer *transfer, CUevent last);
  // Says that a download has been answered.
  void remove(Transfer *transfer);

  // To be called between a synchronisation and its answer: waits until the downloads that it covers
  // have been answered. These are the ones of commands before `sequence` that are complete on the
  // device; if `stream` was synchronised, also those not yet queued in full on streams that it is
  // ordered with; with `all`, every one before `sequence`.
  void settle(uint64_t sequence, const Stream *stream = nullptr, bool all = false);

 private:
  const Driver &driver_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Transfer *> transfers_;
  std::atomic<unsigned> pending_{0};
};

}  // namespace outboard
