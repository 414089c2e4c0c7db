// The attributes of a launch, which are made from the words in which they travel.
#pragma once

#include <span>

#include "base/driver.h"
#include "wire.h"

namespace outboard {

class Session;

class LaunchAttributes {
 public:
  // Decodes the bytes. Returns null, or what is wrong with them.
  const char *decode(std::span<const uint8_t> bytes);
  // Replaces handles of events by the driver's. CUDA_ERROR_INVALID_HANDLE when there is none of a
  // handle, CUDA_ERROR_INVALID_VALUE for attributes that are not known.
  CUresult resolve(Session &s);

  CUlaunchAttribute *data() { return attributes_; }
  unsigned count() const { return count_; }

 private:
  CUlaunchAttribute attributes_[WIRE_LAUNCH_ATTRIBUTES]{};
  uint64_t events_[WIRE_LAUNCH_ATTRIBUTES]{};  // the guest's handle, of attributes that have one
  unsigned count_ = 0;
  bool known_ = true;  // what they say
};

}  // namespace outboard
