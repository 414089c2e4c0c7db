// What the device runtime calls errors.
#pragma once

namespace softdev::driver {

struct RuntimeError {
  int error;
  const char *name;
  const char *sentence;  // nullptr: what the driver says of this number
};

extern const RuntimeError kRuntimeErrors[];
extern const unsigned kRuntimeErrorCount;

}  // namespace softdev::driver
