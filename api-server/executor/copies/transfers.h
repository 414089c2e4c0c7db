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

namespace outboard {

// A stream with what decides which others it is ordered with.
struct Stream {
  CUstream object = nullptr;
  bool blocking = true;     // ordered with the legacy default stream
  uint64_t seen_pages = 0;  // Pages::order

  bool legacy() const { return object == nullptr || object == CU_STREAM_LEGACY; }
  bool ordered_with(const Stream &other) const {
    if (object == other.object || (legacy() && other.legacy())) return true;
    return (legacy() && other.blocking) || (other.legacy() && blocking);
  }
};

struct Transfer {
  uint64_t sequence;  // of its command
  Stream stream;
  CUevent last = nullptr;  // behind its last copy, once all are queued
};

class Transfers {
 public:
  explicit Transfers(const Driver &driver) : driver_(driver) {}

  // All of these may be called by any thread.
  //
  // Whether any download has not been answered, and how many have not.
  bool pending() const { return pending_.load(std::memory_order_acquire) != 0; }

  unsigned count() const { return pending_.load(std::memory_order_relaxed); }

  // A download begins: `transfer` lives until `remove`.
  void add(Transfer *transfer);
  // All its copies are queued; the event `last` is behind the last of them.
  void queued(Transfer *transfer, CUevent last);
  // It has been answered.
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
