// Waits for the device that cost nothing: the driver lets threads sleep, which the context is set
// to (Device) and events have a flag for. To fall asleep and be woken takes longer than many waits,
// so who waits looks for itself first.
#pragma once

#include <chrono>
#include <thread>

#include "base/driver.h"

namespace outboard {

// What events are made with that threads wait for and nobody measures by.
inline constexpr unsigned kWaitEvent = CU_EVENT_DISABLE_TIMING | CU_EVENT_BLOCKING_SYNC;
inline constexpr std::chrono::microseconds kLook{50};

// Asks `done` again and again, for a moment; whether it came true. Only once where whoever does the
// work may need the same processor.
template <class Done>
bool soon(Done done) {
  static const bool alone = std::thread::hardware_concurrency() < 2;
  if (alone) return done();
  const auto until = std::chrono::steady_clock::now() + kLook;
  do {
    if (done()) return true;
  } while (std::chrono::steady_clock::now() < until);
  return false;
}

inline CUresult wait_for(const Driver &driver, CUevent event) {
  soon([&] { return driver.cuEventQuery(event) != CUDA_ERROR_NOT_READY; });
  return driver.cuEventSynchronize(event);
}

inline CUresult wait_for(const Driver &driver, CUstream stream) {
  soon([&] { return driver.cuStreamQuery(stream) != CUDA_ERROR_NOT_READY; });
  return driver.cuStreamSynchronize(stream);
}

}  // namespace outboard
