// Values in memory that streams of the session wait for. When a session is over, nobody else writes
// them, and its streams must not wait for ever; so they are written here. Used by the leader alone.
#pragma once

#include <algorithm>
#include <deque>

#include "memory/memory.h"
#include "memory/scrubber.h"
#include "wire.h"

namespace outboard {

// Whether the value has eight bytes; otherwise it has four.
bool is_wide(const wire_value &value);

class StreamWaits {
 public:
  // Notes that a stream is going to wait for a value.
  void note(const wire_value &value);
  bool empty() const { return values_.empty(); }
  void clear() { values_.clear(); }
  // Whether a value that was noted lies in the range.
  bool within(uint64_t address, uint64_t size) const {
    return std::ranges::any_of(values_,
                               [&](const wire_value &v) { return v.address - address < size; });
  }
  // Writes each value once, so that who waits for it goes on. A stream that waits for several, one
  // after the other, needs as many calls.
  void satisfy(Memory &memory, Scrubber &scrubber) const;

 private:
  // The last ones that were noted. Most of those before them have been written by the guest.
  std::deque<wire_value> values_;
};

}  // namespace outboard
