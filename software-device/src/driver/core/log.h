// The device's log: one line per message on stderr, nothing unless SOFTWARE_DEVICE_LOG asks for
// it, except errors that a person must see.
#pragma once

#include "cuda_driver.h"

namespace softdev::driver {

enum class Level { kError, kWarn, kInfo, kDebug };

void set_log_level(Level level);
bool log_enabled(Level level);
void log(Level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

// Every line from now on also goes there, whatever the level is that stderr gets. It must not log.
using LogObserver = void (*)(Level level, const char *text);
void observe_log(LogObserver observer);

// Says at level info why a call is refused, with the name of the call, and returns the result.
CUresult refuse(CUresult result, const char *format, ...) __attribute__((format(printf, 2, 3)));

}  // namespace softdev::driver
