// Device memory of a module whose kernels use the device runtime: parameters of launches that they
// are about to make, and the names of errors.
#pragma once

#include <cstdint>
#include <map>

#include "device_heap.h"

namespace softdev::driver {

class RuntimeMemory {
 public:
  // Parameters lie here from when a thread begins a launch until it has made it, and no longer: so
  // much does for all threads that run at a time.
  static constexpr uint64_t kBytes = uint64_t{2} << 20;

  explicit RuntimeMemory(uint64_t base);

  uint64_t take(uint64_t bytes) { return parameters_.allocate(bytes ? bytes : 1); }  // 0: full
  void give_back(uint64_t address) { parameters_.release(address); }

  uint64_t error_name(int error) const { return text(error).name; }
  uint64_t error_sentence(int error) const { return text(error).sentence; }

 private:
  struct Text {
    uint64_t name, sentence;
  };
  const Text &text(int error) const {
    auto found = texts_.find(error);
    return found == texts_.end() ? unknown_ : found->second;
  }

  DeviceHeap parameters_;
  std::map<int, Text> texts_;
  Text unknown_;
};

}  // namespace softdev::driver
