// What a session holds while it moves from one process to another (docs/moving.md).
#pragma once

#include <cstdint>
#include <vector>

#include "base/driver.h"
#include "wire.h"

namespace outboard {

// Two pieces of pinned memory through which the device's memory is read. One thread's.
class MoveBuffers {
 public:
  explicit MoveBuffers(const Driver &driver);
  ~MoveBuffers();
  MoveBuffers(const MoveBuffers &) = delete;

  bool ready() const { return ready_; }
  // Begins to read up to WIRE_BULK_MAX bytes into the piece of that number.
  bool fetch(unsigned piece, uint64_t address, uint64_t size);
  // Waits for them. Null: they cannot be read.
  const uint8_t *wait(unsigned piece);

 private:
  const Driver &driver_;
  void *bytes_[2] = {};
  CUstream streams_[2] = {};
  bool ready_ = false;
};

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
