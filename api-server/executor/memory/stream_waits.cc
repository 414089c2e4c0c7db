#include "memory/stream_waits.h"

#include "base/session_limits.h"

namespace outboard {

namespace {

bool is_wait(const wire_value &value) {
  return value.operation == CU_STREAM_MEM_OP_WAIT_VALUE_32 ||
         value.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64;
}

}  // namespace

bool is_wide(const wire_value &value) {
  return value.operation == CU_STREAM_MEM_OP_WAIT_VALUE_64 ||
         value.operation == CU_STREAM_MEM_OP_WRITE_VALUE_64;
}

void StreamWaits::note(const wire_value &value) {
  if (!is_wait(value)) return;
  if (values_.size() == session_limits.awaited_values) values_.pop_front();
  values_.push_back(value);
}

void StreamWaits::satisfy(Memory &memory, Scrubber &scrubber) const {
  for (const wire_value &value : values_) {
    const uint64_t size = is_wide(value) ? 8 : 4;
    if (!memory.reachable(value.address, size) && !memory.is_early(value.address, size)) continue;
    const uint64_t good = value.flags == CU_STREAM_WAIT_VALUE_NOR ? 0 : value.value;
    scrubber.write(value.address, static_cast<uint32_t>(good));
    if (is_wide(value)) scrubber.write(value.address + 4, static_cast<uint32_t>(good >> 32));
  }
}

}  // namespace outboard
