// Reads ahead while the leader is in a driver call that waits for the device. The device may wait
// for a function of the guest, and the command that says that this has returned would be read by
// nobody but the leader. So meanwhile another thread of the pool receives what arrives and looks
// for such returns in it. Everything else stays in the receiver for the leader.
#pragma once

#include <future>

#include "session/host_functions.h"
#include "session/thread_pool.h"
#include "wire/receiver.h"

namespace outboard {

// Reads ahead from its construction to its end. Made and ended by the leader, which may not use the
// receiver meanwhile.
class ReadAhead {
 public:
  // The next `payload` bytes are not looked at.
  ReadAhead(ThreadPool &pool, Receiver &receiver, HostFunctions &functions, size_t payload);
  ~ReadAhead();
  ReadAhead(const ReadAhead &) = delete;
  ReadAhead &operator=(const ReadAhead &) = delete;

 private:
  void read();
  bool look();

  Receiver &receiver_;
  HostFunctions &functions_;
  size_t seen_;
  const int stop_;
  std::promise<void> done_;
};

// Whether the driver may wait for the device before it is done with a command of this kind.
bool may_wait_for_device(uint16_t op);

}  // namespace outboard
