// What a session holds while it moves from one process to another (docs/moving.md).
#pragma once

#include <cstdint>
#include <vector>

namespace outboard {

// Lets a leader that waits for its guest be woken, when it is the calling thread.
void can_be_woken();

// What has come of a session that is not here yet.
struct Arrival {
  ~Arrival();
  int connection = -1;  // of the guest
  std::vector<uint8_t> unread;
  std::vector<uint8_t> events;    // wire_moved_event
  std::vector<uint8_t> returned;  // uint64_t
  std::vector<uint8_t> counters;  // uint64_t
  std::vector<uint8_t> tls;       // of a connection by TLS
  std::vector<uint8_t> printed;   // whether kernels have printed: a byte, or nothing
};

}  // namespace outboard
