// That a process has a device for itself (the trait `exclusive-process`): a lock on a file, which
// the kernel gives back when the process ends, however it ends.
#pragma once

#include <mutex>
#include <string>

namespace softdev::driver {

class Claim {
 public:
  // Once for each context that is there. False: another process has the device, or the file cannot
  // be locked. Always true where `path` is empty.
  bool take(const std::string &path);
  // Once for each take that was true.
  void give_back();

 private:
  std::mutex mutex_;
  unsigned contexts_ = 0;
  int file_ = -1;
};

}  // namespace softdev::driver
