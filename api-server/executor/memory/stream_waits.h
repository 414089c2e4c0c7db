// Values that streams of the session wait for. When a session is over, nobody else is going to
// write them, and its streams must not wait forever: so they are written here.
#pragma once

#include <algorithm>
#include <deque>

#include "memory/memory.h"
#include "memory/scrubber.h"
#include "wire.h"

namespace outboard {

// Whether it is of eight bytes.
bool is_wide(const wire_value &value);

class StreamWaits {
 public:
  void note(const wire_value &value);
  bool empty() const { return values_.empty(); }
  void clear() { values_.clear(); }
  // Whether one of them may be there.
  bool within(uint64_t address, uint64_t size) const {
    return std::ranges::any_of(values_,
                               [&](const wire_value &v) { return v.address - address < size; });
  }
  // Writes each of them once. Streams that wait for one after another need as many rounds.
  void satisfy(Memory &memory, Scrubber &scrubber) const;

 private:
  // The last ones: what was waited for long before them has mostly been there.
  std::deque<wire_value> values_;
};

}  // namespace outboard
