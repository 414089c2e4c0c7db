// Overwrites memory that is given back, on a stream of its own. The only work on the device that
// does not pass the gate: it is not the guest's.
#pragma once

#include "driver.h"

namespace outboard {

class Scrubber {
 public:
  Scrubber(const Driver &driver, CUstream stream) : driver_(driver), stream_(stream) {}

  CUresult zero(uint64_t address, uint64_t size) {
    return driver_.work.calls_.cuMemsetD8Async(address, 0, size, stream_);
  }
  // It works in order, so once it is done with all it is done with each.
  CUresult wait() { return driver_.cuStreamSynchronize(stream_); }
  CUresult done() { return driver_.cuStreamQuery(stream_); }

 private:
  const Driver &driver_;
  const CUstream stream_;
};

}  // namespace outboard
