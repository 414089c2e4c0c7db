// What the functions of the device's system share.
#pragma once

#include <cstring>
#include <string>

#include "schedule/grid.h"
#include "translate/builtins.h"

namespace softdev {

// Memory as one thread sees it through generic pointers; every access is checked. What is refused
// first is remembered.
class ThreadMemory {
 public:
  ThreadMemory(Warp &warp, unsigned lane) : warp_(warp), lane_(lane) {}

  template <class T>
  bool read(uint64_t address, T *out) {
    if (!may(address, sizeof(T), false)) return false;
    std::memcpy(out, reinterpret_cast<const void *>(address), sizeof(T));
    return true;
  }
  template <class T>
  bool write(uint64_t address, const T &value) {
    if (!may(address, sizeof(T), true)) return false;
    std::memcpy(reinterpret_cast<void *>(address), &value, sizeof(T));
    return true;
  }
  bool string(uint64_t address, std::string *out);
  // Ends the launch for what was refused.
  const Ins *fault(const Ins *ins) const;

  const Cta &block() const { return *warp_.cta; }
  Cta &block() { return *warp_.cta; }
  uint32_t thread() const { return warp_.index * kLanes + lane_; }

 private:
  bool may(uint64_t address, unsigned size, bool write);

  Warp &warp_;
  unsigned lane_;
  uint64_t bad_ = 0;
  unsigned bad_size_ = 1;
  bool bad_write_ = false;
};

// Calls a function of CUDA's device runtime for one thread, whose frame holds the arguments. False
// when a pointer among them is bad.
bool call_device_runtime(ThreadMemory &memory, const CallCode &call, const uint8_t *frame,
                         uint64_t *result);

}  // namespace softdev
