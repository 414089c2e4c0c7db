// The trace of a program (SOFTWARE_DEVICE_TRACE): each call with its arguments and result, and the
// work of each stream over time. Lines of text; or, for a file whose name ends in .json, what
// Chrome and Perfetto show as a timeline.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "cuda_driver.h"

namespace softdev::driver::trace {

extern std::atomic<bool> enabled;
inline bool on() { return enabled.load(std::memory_order_relaxed); }

// Begins a trace into a file; "-" is stderr. False, and why, when it cannot be written.
bool open(const char *path, std::string *problem);

// A piece of a stream's work, from its start to its end.
struct Span {
  std::string what;
  int device = 0;
  uint64_t stream = 0;
  int64_t started_ns = 0;
};
// Empty when there is no trace.
std::unique_ptr<Span> span(const char *format, ...) __attribute__((format(printf, 1, 2)));
void finished(const Span &span, int64_t ended_ns);

// A call that has returned.
void called(const char *name, const std::string &arguments, CUresult result, int64_t began_ns,
            int64_t ended_ns);

}  // namespace softdev::driver::trace
