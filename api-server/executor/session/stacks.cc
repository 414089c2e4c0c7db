#include "session/stacks.h"

#include <algorithm>
#include <string>

#include "base/log.h"

namespace outboard {

// For all threads.
uint64_t Stacks::bytes(uint64_t more) const {
  uint64_t all = 0;
  return __builtin_mul_overflow(more, device_.resident_threads(), &all) ? UINT64_MAX : all;
}

// What stacks of that size take of the session's limit, beside what a stack limit takes of it.
uint64_t Stacks::counted(uint64_t largest, uint64_t limit) const {
  const uint64_t there = std::max(device_.limit(CU_LIMIT_STACK_SIZE), limit);
  const uint64_t all = largest > there ? bytes(largest - there) : 0;
  return all - std::min(all, kept_);
}

// Whether kernels may have stacks of that size from now on.
bool Stacks::are_there(uint64_t largest) {
  // Those of the stack limit are there already.
  const uint64_t there = std::max(largest_, limit_);
  if (!memory_.set_stacks(counted(largest, limit_))) return false;
  // What the session has given back may still be being overwritten.
  if (largest > there && memory_.find_free(bytes(largest - there)) != CUDA_SUCCESS) {
    memory_.keep_stacks(counted(largest_, limit_));
    return false;
  }
  largest_ = largest;
  return true;
}

CUresult Stacks::grow(Function *function) {
  if (function->stack == Function::kNotAsked) {
    int stack = 0;
    const CUresult asked = device_.driver().cuFuncGetAttribute(
        &stack, CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES, function->object);
    if (asked == CUDA_ERROR_OUT_OF_MEMORY) return asked;  // it may be there the next time
    // What the driver does not tell it takes into account by itself.
    function->stack = asked == CUDA_SUCCESS ? static_cast<uint32_t>(std::max(stack, 0)) : 0;
  }
  if (function->stack <= largest_ || are_there(function->stack)) return CUDA_SUCCESS;
  if (!refused_) {
    log_line(LogLevel::kWarn, session_,
             "a launch is refused: stacks of " + std::to_string(function->stack) +
                 " bytes for all threads of the device are more than is kept back for them and "
                 "than the session's memory limit leaves; a limit that the program sets "
                 "(cuCtxSetLimit) may take all that is left");
  }
  refused_ = true;
  return CUDA_ERROR_OUT_OF_MEMORY;
}

void Stacks::limit_is(uint64_t limit) {
  limit_ = limit;
  // Kernels have these stacks, which a larger limit may have stood for until now.
  memory_.keep_stacks(counted(largest_, limit_));
}

bool Stacks::put_back() {
  const uint64_t before = device_.limit(CU_LIMIT_STACK_SIZE);
  const bool grown = largest_ > before;
  largest_ = before;
  limit_ = 0;
  memory_.keep_stacks(0);
  return grown;
}

}  // namespace outboard
