// Pages that guest and device share travel on a stream of their own, past whatever the guest's
// streams are busy with: the host may touch memory while kernels run. Work that comes later waits
// for those that came before it. Used by the leader alone, but for `stream`.
#pragma once

#include <cstdint>

#include "base/driver.h"
#include "copies/page_porter.h"

namespace outboard {

class Pages {
 public:
  // `porter` may be null.
  Pages(const Driver &driver, PagePorter *porter) : driver_(driver), porter_(porter) {}

  // Returns the stream of the pages, which is made when it is first needed; null when the driver
  // refuses. Any thread.
  CUstream stream();
  // Says that copies of pages to the device have been queued on it. The driver's result.
  CUresult sent();
  // Makes what is queued on `stream` from now on come after all copies of pages that were sent.
  // `seen` is kept with each stream: how many it is behind already.
  void order(CUstream stream, uint64_t &seen) {
    if (seen != sent_) [[unlikely]]
      put_behind(stream, seen);
  }
  // To be called before a function of the guest is queued, and for pages that are sent while there
  // is one: the porter does not begin before those are there.
  void mark();
  // Whether all pages that were sent are there; asks the driver only where nothing else tells.
  bool here() const;
  // Waits until they are, for work that was queued before them and may run next.
  void arrive();
  // `seen` of the legacy stream.
  uint64_t &seen_by_legacy() { return seen_by_legacy_; }

  // Destroys what the session has for this on the device. All work is done. The first error.
  CUresult release();

 private:
  void put_behind(CUstream stream, uint64_t &seen);

  const Driver &driver_;
  PagePorter *const porter_;
  CUstream stream_ = nullptr;
  CUevent last_ = nullptr;
  uint64_t sent_ = 0;    // batches of copies
  uint64_t marked_ = 0;  // of those
  uint64_t seen_by_legacy_ = 0;
};

}  // namespace outboard
