// Who reads the connection never waits in the driver for what a command of the guest ends. A driver
// may keep the leader in any call: until the device has come to rest, or as long as another thread
// loads code. A stream may be held by a function of the guest then, and that it has returned would
// be read by nobody. So while functions are pending a thread watches the leader. Where it sees it
// carry out the same command for a moment it takes over reading: it receives what arrives and looks
// for returns in it, for bytes that streams wait for, and for pages of functions. Everything else
// stays in the receiver for the leader, who takes over again when its command is done. While
// nothing is pending it sleeps, and nobody asks it anything.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>

#include "session/carried_pages.h"
#include "session/host_functions.h"
#include "wire/receiver.h"

namespace outboard {

class Watchman {
 public:
  Watchman(Receiver &receiver, HostFunctions &functions, CarriedPages &pages);
  ~Watchman();
  Watchman(const Watchman &) = delete;
  Watchman &operator=(const Watchman &) = delete;

  // ---- for the leader --------------------------------------------------------------------------

  // From here on it does not use the receiver. The next `payload` bytes there are no frames, and
  // what comes behind them is the command after that of number `sequence`.
  void carrying(size_t payload, uint64_t sequence);
  // From here on it does again. Waits until the watchman is out of it.
  void reading();

 private:
  enum State : uint32_t { kReading, kCarrying, kTaken };

  void watch();
  void nap(bool long_one);
  void read();
  bool look();
  bool take_payload(const struct wire_header &head);

  Receiver &receiver_;
  HostFunctions &functions_;
  CarriedPages &pages_;
  int wake_ = -1, stop_ = -1;  // events of the kernel: ends a nap; ends reading
  std::thread thread_;         // made when it is first needed
  std::atomic<uint32_t> state_{kReading};
  std::atomic<uint64_t> turn_{0};  // how often the leader began to carry something out
  std::atomic<bool> asleep_{false}, over_{false};
  uint64_t seen_turn_ = 0;  // the watchman's
  size_t payload_ = 0;      // the leader's, until `state_` says that it is taken; and the next
  uint64_t sequence_ = 0;
  size_t seen_ = 0;          // the watchman's: what need not be looked at any more,
  uint64_t seen_until_ = 0;  // and the last command in it
};

}  // namespace outboard
