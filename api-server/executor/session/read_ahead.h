// While the leader makes a driver call that waits for the device: the device may wait for a
// function of the guest, and that this has returned is told by a command that only the leader would
// read. So for that long another thread of the pool takes up what arrives, behind what has been
// consumed, and looks for such returns; all else stays for the leader.
#pragma once

#include <future>

#include "session/host_functions.h"
#include "session/thread_pool.h"
#include "wire/receiver.h"

namespace outboard {

/** For the leader; until it ends, nobody else may use the receiver. */
class ReadAhead {
 public:
  ReadAhead(ThreadPool &pool, Receiver &receiver, HostFunctions &functions);
  ~ReadAhead();
  ReadAhead(const ReadAhead &) = delete;
  ReadAhead &operator=(const ReadAhead &) = delete;

 private:
  void read();
  bool look();

  Receiver &receiver_;
  HostFunctions &functions_;
  size_t seen_ = 0;
  const int stop_;
  std::promise<void> done_;
};

/** Whether the driver may wait for the device before it is done with such a command. */
bool may_wait_for_device(uint16_t op);

}  // namespace outboard
