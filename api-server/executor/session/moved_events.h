// Times of events that were recorded before the session moved here. On this device all of them are
// recorded once, when the session comes; what lies between two of them, or between one of them and
// a later event, is told by the time that it had before.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "base/driver.h"
#include "wire.h"

namespace outboard {

// The leader's.
class MovedEvents {
 public:
  explicit MovedEvents(const Driver &driver) : driver_(driver) {}
  ~MovedEvents() { clear(); }
  MovedEvents(const MovedEvents &) = delete;

  // What a session takes along: the time of each of these events that has one, in nanoseconds from
  // a moment that is the same for all. All work has ended.
  struct Event {
    uint64_t handle;
    CUevent object;
  };
  std::vector<wire_moved_event> times(const std::vector<Event> &events);

  // What comes with it: `ns` counts from the moment when this is called. `objects` are the events
  // in the same order, which are recorded here.
  CUresult keep(std::span<const wire_moved_event> times, std::span<const CUevent> objects);

  // The time between two events.
  CUresult elapsed(uint64_t start, CUevent start_object, uint64_t end, CUevent end_object,
                   float *milliseconds);
  void clear();

 private:
  struct Moved {
    int64_t ns;
    float mark;  // milliseconds from base_ as long as it is not recorded again
  };
  bool find(uint64_t handle, CUevent object, int64_t *ns) const;

  const Driver &driver_;
  std::map<uint64_t, Moved> events_;
  CUevent base_ = nullptr;
};

}  // namespace outboard
