// What a session holds while it moves from one process to another (docs/moving.md).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "copies/region.h"
#include "wire/sender.h"

namespace outboard {

// Lets a leader that waits for its guest be woken, when it is the calling thread.
void can_be_woken();

// What has come of a session that is not here yet.
struct Arrival {
  Arrival() = default;
  ~Arrival();
  Arrival(const Arrival &) = delete;
  int connection = -1;  // of the guest
  std::vector<uint8_t> unread;
  std::vector<uint8_t> events;    // wire_moved_event
  std::vector<uint8_t> returned;  // uint64_t
  std::vector<uint8_t> counters;  // uint64_t
  std::vector<uint8_t> tls;       // of a connection by TLS
  std::vector<uint8_t> printed;   // whether kernels have printed: a byte, or nothing

  // Shared with the guest; false where it is not what is said of it.
  bool take_region(const Driver &driver, std::span<const uint8_t> bytes, int descriptor);
  std::unique_ptr<Region> region;

  // Of a connection that is kept over cuts; false where that makes no sense.
  bool take_kept(std::span<const uint8_t> bytes);
  bool take_stream(std::span<const uint8_t> bytes, int descriptor);
  // Whether all has come that its guest may lack.
  bool stream_is_whole() const;
  Sender::Stream sent;
  uint64_t kept_from = 0;  // the first byte that has come of what was sent
  std::optional<wire_moved_stream> stream;
};

}  // namespace outboard
