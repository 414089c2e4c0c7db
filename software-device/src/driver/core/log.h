// The device's log: one line per message on stderr, nothing unless SOFTWARE_DEVICE_LOG asks for
// it, except errors that a person must see.
#pragma once

#include "cuda_driver.h"

namespace softdev::driver {

enum class Level { kError, kWarn, kInfo, kDebug };

void set_log_level(Level level);
bool log_enabled(Level level);
void log(Level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// A result together with the name of the entry point that is about to return it.
struct Refusal {
  // NOLINTNEXTLINE: implicit, so that the call site's name is taken
  Refusal(CUresult why, const char *call = __builtin_FUNCTION()) : result(why), where(call) {}
  CUresult result;
  const char *where;
};

// Says at level info why a call is refused, and returns the result.
CUresult refuse(Refusal refusal, const char *format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace softdev::driver
