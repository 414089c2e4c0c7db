#include "streams/hidden_memory.h"

#include <algorithm>

#include "core/driver.h"

namespace softdev::driver {
namespace {

// Of the context itself: what a GPU's driver takes, or a part of a smaller device.
constexpr uint64_t kContext = uint64_t{512} << 20, kContextPart = 64;

}  // namespace

// With the lock held: changes what is taken to what that comes to.
bool HiddenMemory::take(uint64_t stack, uint64_t code) {
  const uint64_t threads = static_cast<uint64_t>(device_.multiprocessor().threads) *
                           static_cast<unsigned>(device_.multiprocessors);
  const uint64_t wanted = round_up(std::min(kContext, device_.memory / kContextPart), kGranule) +
                          round_up(threads * round_up(stack, 16), kGranule) +
                          round_up(code, kGranule);
  PhysicalMemory &memory = driver()->memory.physical(device_.ordinal);
  if (wanted > taken_ && !memory.charge(wanted - taken_)) return false;
  if (wanted < taken_) memory.discharge(taken_ - wanted);
  taken_ = wanted;
  stack_ = stack;
  code_ = code;
  return true;
}

bool HiddenMemory::begin(uint64_t stack) {
  if (!driver()->settings.traits.hidden_memory) return true;
  std::lock_guard guard(mutex_);
  return there_ = take(stack, 0);
}

void HiddenMemory::end() {
  std::lock_guard guard(mutex_);
  if (there_) driver()->memory.physical(device_.ordinal).discharge(taken_);
  there_ = false;
  taken_ = 0;
}

bool HiddenMemory::need_stacks(uint64_t bytes) {
  std::lock_guard guard(mutex_);
  return !there_ || bytes <= stack_ || take(bytes, code_);
}

bool HiddenMemory::set_stacks(uint64_t bytes) {
  std::lock_guard guard(mutex_);
  return !there_ || take(bytes, code_);
}

bool HiddenMemory::load(uint64_t code) {
  std::lock_guard guard(mutex_);
  return !there_ || take(stack_, code_ + code);
}

void HiddenMemory::unload(uint64_t code) {
  std::lock_guard guard(mutex_);
  if (there_) take(stack_, code_ - std::min(code, code_));
}

}  // namespace softdev::driver
