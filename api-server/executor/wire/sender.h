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

  // Sends the parts one behind the other, and changes the array. A descriptor, unless it is -1,
  // goes along with the first byte, which takes a Unix socket. False when the connection is gone.
  bool send(iovec *parts, int count, int descriptor = -1);

  // Sends a frame: `size` bytes, which begin with a header that is filled in here, and `length`
  // bytes of payload behind them, padded to 8. False when the connection is gone.
  bool push(uint16_t op, void *frame, size_t size, const void *payload = nullptr,
            size_t length = 0);

  // Goes on with another connection, which lies under the same descriptor now.
  void begin_anew();
  // Says that the connection is another process's: nothing is sent any more.
  void leave();

  // Makes a guest that takes nothing for a moment count as gone from now on.
  void hurry() { hurried_.store(true, std::memory_order_relaxed); }

 private:
  void wait_shortly();
  bool send_rest(iovec *parts, int count, int descriptor);

  int fd_;
  const int limit_ms_ = silence_limit_ms();
  silence silence_{};
  Counters &counters_;
  std::mutex mutex_;
  bool broken_ = false;
  std::atomic<bool> hurried_{false};
};

// The zeros that payloads are padded with.
inline constexpr uint8_t kPadding[8] = {};

}  // namespace outboard
