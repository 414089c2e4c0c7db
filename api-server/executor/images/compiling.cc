// Options of the compiler as they travelled, and what it said.
#include <algorithm>
#include <cstring>

#include "images/module.h"

namespace outboard {

namespace {

// Options that are plain numbers for the compiler. Of the others, those that say where to put
// something are the guest's own.
bool is_number(CUjit_option option) {
  switch (option) {
    case CU_JIT_MAX_REGISTERS:
    case CU_JIT_THREADS_PER_BLOCK:
    case CU_JIT_OPTIMIZATION_LEVEL:
    case CU_JIT_TARGET:
    case CU_JIT_FALLBACK_STRATEGY:
    case CU_JIT_GENERATE_DEBUG_INFO:
    case CU_JIT_LOG_VERBOSE:
    case CU_JIT_GENERATE_LINE_INFO:
    case CU_JIT_CACHE_MODE:
    case CU_JIT_OPTIMIZE_UNUSED_DEVICE_VARIABLES:
    case CU_JIT_POSITION_INDEPENDENT_CODE:
    case CU_JIT_MIN_CTA_PER_SM:
    case CU_JIT_MAX_THREADS_PER_BLOCK:
    case CU_JIT_OVERRIDE_DIRECTIVE_VALUES:
      return true;
    default:
      return false;
  }
}

}  // namespace

Compiling::Compiling(std::span<const uint8_t> given) {
  for (size_t at = 0; at + sizeof(wire_jit_option) <= given.size(); at += sizeof(wire_jit_option)) {
    wire_jit_option from;
    memcpy(&from, given.data() + at, sizeof from);
    if (from.option > INT32_MAX) continue;
    const auto option = static_cast<CUjit_option>(from.option);
    const auto size = static_cast<size_t>(std::min<uint64_t>(from.value, WIRE_JIT_LOG_MAX));
    if (option == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES) errors_size_ = std::max(errors_size_, size);
    if (option == CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES) info_size_ = size;
    if (is_number(option)) numbers_.emplace_back(option, from.value & UINT32_MAX);
  }
}

void Compiling::make_room(std::string &log, size_t size, CUjit_option buffer,
                          CUjit_option buffer_size) {
  log.assign(size, '\0');
  if (!size) return;
  add(buffer, reinterpret_cast<uint64_t>(log.data()));
  add(buffer_size, size);
}

void Compiling::start() {
  options_.clear();
  values_.clear();
  for (const auto &[option, value] : numbers_) add(option, value);
  make_room(errors, errors_size_, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);
  make_room(info, info_size_, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES);
}

void Compiling::finish() {
  for (std::string *log : {&errors, &info}) log->resize(strnlen(log->data(), log->size()));
}

}  // namespace outboard
