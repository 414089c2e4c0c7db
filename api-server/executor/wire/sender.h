// The way out: one frame at a time, whole, from any thread of the session. When the guest does not
// take what is sent, senders wait: the guest drains its side whenever it sends or waits itself, so
// this is backpressure and never a deadlock; and a session that is being stopped gives up.
//
// Lock: mutex_, the innermost one; nothing is called with it held.
#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/counters.h"
#include "silence.h"
#include "wire.h"

namespace outboard {

class Sender {
 public:
  Sender(int fd, Counters &counters);

  // Sends the parts as they are; changes the array. A descriptor goes along with the first byte,
  // which takes a Unix socket. False when the connection is gone.
  bool send(iovec *parts, int count, int descriptor = -1);

  // A header, `body` behind it, then a payload padded to 8.
  bool push(uint16_t op, void *frame, size_t size, const void *payload = nullptr,
            size_t length = 0);

  // From now on a peer that takes nothing for a moment counts as gone.
  void hurry() { hurried_.store(true, std::memory_order_relaxed); }

 private:
  bool send_rest(iovec *parts, int count, int descriptor);

  int fd_;
  const int limit_ms_ = silence_limit_ms();
  silence silence_{};
  Counters &counters_;
  std::mutex mutex_;
  bool broken_ = false;
  std::atomic<bool> hurried_{false};
};

// Zeros to pad payloads with.
inline constexpr uint8_t kPadding[8] = {};

}  // namespace outboard
