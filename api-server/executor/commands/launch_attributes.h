// Attributes of a launch, from the words that they travel as.
#pragma once

#include <span>

#include "base/driver.h"
#include "wire.h"

namespace outboard {

class Session;

class LaunchAttributes {
 public:
  // Null, or what is wrong with them.
  const char *decode(std::span<const uint8_t> bytes);
  // Puts the session's events in place.
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
