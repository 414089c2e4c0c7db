// How many operations a stream of the driver takes before it keeps whoever puts one more there
// waiting.
#pragma once

#include <functional>

#include "base/driver.h"

namespace outboard {

// Measures it: fills a stream that a host function keeps back, until two times agree, as a thread
// that the machine does not let run looks the same as one that waits. Returns 0 where a stream
// takes 2,048 and more, or where it cannot be measured. The context is current; a thread that is
// made here calls `bind`. No session may use the device.
unsigned measure_stream_operations(const Driver &driver, const std::function<void()> &bind);

}  // namespace outboard
