// What a context takes of its device's memory without being asked, as NVIDIA's driver does (the
// trait `hidden-memory`): for itself, for the code of modules that are used, and for the stacks of
// all threads that the device can hold, which are as large as any kernel has needed so far.
#pragma once

#include <cstdint>
#include <mutex>

namespace softdev::driver {

class Device;

// Without the trait it takes nothing. False, with nothing changed, where the device has not so much
// left.
class HiddenMemory {
 public:
  explicit HiddenMemory(const Device &device) : device_(device) {}
  HiddenMemory(const HiddenMemory &) = delete;

  // The context begins, with stacks of so many bytes.
  bool begin(uint64_t stack);
  // Gives back everything.
  void end();

  // Stacks of at least so many bytes.
  bool need_stacks(uint64_t bytes);
  // Stacks of exactly so many bytes, once no kernel runs.
  bool set_stacks(uint64_t bytes);

  // Code of so many bytes, which share granules with other code.
  bool load(uint64_t code);
  void unload(uint64_t code);

 private:
  bool take(uint64_t stack, uint64_t code);

  const Device &device_;
  std::mutex mutex_;
  bool there_ = false;
  uint64_t stack_ = 0, code_ = 0;
  uint64_t taken_ = 0;
};

}  // namespace softdev::driver
