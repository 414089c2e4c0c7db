// The counters of a session. They lie in shared memory, so whoever has it mapped reads them without
// a call.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

namespace outboard {

using Counter = std::atomic<uint64_t>;

// The order is counterNames of api-server/src/native.ts.
struct Counters {
  Counter commands;
  Counter round_trips;
  Counter bytes_in;
  Counter bytes_out;
  Counter launches;
  Counter uploads;
  Counter downloads;
  Counter memory_mapped;
  Counter memory_mapped_peak;
  Counter modules;
  Counter faults;
  Counter violations;
  Counter module_memory;
  Counter cached_uploads;
  Counter cached_bytes;
  Counter pinned_memory;
  Counter hindrances;         // bits: generated/moving.h
  Counter libraries_refused;  // handles of libraries, and functions of these that are not served

  // Makes counters that are 0, and unmaps them when nobody has them any more. Throws Error.
  static std::shared_ptr<Counters> map();
};
inline constexpr unsigned kCounterCount = sizeof(Counters) / sizeof(uint64_t);
static_assert(sizeof(Counters) == 18 * sizeof(uint64_t));

// Adds to a counter that only one thread at a time writes; this takes no locked instruction.
inline void count_alone(Counter &counter, uint64_t by = 1) {
  counter.store(counter.load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
}
// Adds to a counter. Any thread.
inline void count(Counter &counter, uint64_t by = 1) {
  counter.fetch_add(by, std::memory_order_relaxed);
}

}  // namespace outboard
