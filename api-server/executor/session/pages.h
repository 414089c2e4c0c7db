// Pages that guest and device share travel on a stream of their own, past whatever the guest's
// streams are busy with: the host may touch memory while kernels run. Work that comes later waits
// for those that came before it. Used by the leader alone, but for `stream`.
#pragma once

#include <cstdint>

#include "base/driver.h"

namespace outboard {

class Pages {
 public:
  explicit Pages(const Driver &driver) : driver_(driver) {}

  // Made when it is first needed; null when the driver refuses.
  CUstream stream();
  // Copies to the device have been queued on it.
  CUresult sent();
  // What is queued on `stream` from now on comes after them. `seen`: how far that is so already.
  void order(CUstream stream, uint64_t &seen) {
    if (seen != sent_) [[unlikely]]
      put_behind(stream, seen);
  }
  // Whether they are there; and waits until they are: what runs next was queued before them.
  bool here() const;
  void arrive();
  uint64_t &seen_by_legacy() { return seen_by_legacy_; }

  // All work is done; what the session had on the device goes.
  CUresult release();

 private:
  void put_behind(CUstream stream, uint64_t &seen);

  const Driver &driver_;
  CUstream stream_ = nullptr;
  CUevent last_ = nullptr;
  uint64_t sent_ = 0;  // batches of copies
  uint64_t seen_by_legacy_ = 0;
};

}  // namespace outboard
