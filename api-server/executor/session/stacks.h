// Stacks of kernels: local memory, which the driver takes for all threads that the device can hold,
// as large as any kernel of the context has needed. A part of the device is kept back for each
// session's; what is more counts towards its limit. Used by the leader alone.
#pragma once

#include <cstdint>

#include "device/device.h"
#include "images/module.h"
#include "memory/memory.h"

namespace outboard {

class Stacks {
 public:
  // `kept`: how many bytes of the device are kept back for them.
  Stacks(const Device &device, Memory &memory, uint64_t kept, uint64_t session)
      : device_(device),
        memory_(memory),
        kept_(kept),
        session_(session),
        largest_(device.limit(CU_LIMIT_STACK_SIZE)) {}

  // To be called before a launch of the function. CUDA_ERROR_OUT_OF_MEMORY where the session has
  // no memory for its stacks.
  CUresult need(Function *function) {
    if (function->stack <= largest_) [[likely]]
      return CUDA_SUCCESS;
    return grow(function);
  }
  // Says that the stack limit is so many bytes now: with that it counts by itself (limits.cc).
  void limit_is(uint64_t limit);
  // Begins anew. Whether they had grown beyond what the context had at first.
  bool put_back();

 private:
  CUresult grow(Function *function);
  uint64_t bytes(uint64_t more) const;
  uint64_t counted(uint64_t largest, uint64_t limit) const;
  bool are_there(uint64_t largest);

  const Device &device_;
  Memory &memory_;
  const uint64_t kept_;
  const uint64_t session_;
  uint64_t largest_;    // bytes that a kernel has needed, or the context had at first
  uint64_t limit_ = 0;  // bytes, where the session has set it
  bool refused_ = false;
};

}  // namespace outboard
