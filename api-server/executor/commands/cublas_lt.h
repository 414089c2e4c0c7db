// Calls of cuBLASLt among those of libraries (libraries.cc).
#pragma once

#include <span>

#include "dispatch.h"

namespace outboard {

class Session;

void ask_cublas_lt(Session &s, const wire_LibraryAsk &q, std::span<const uint8_t> bytes,
                   Starts<Work::kKernel> work);
void call_cublas_lt(Session &s, const wire_LibraryCall &q, std::span<const uint8_t> bytes,
                    Starts<Work::kKernel> work);

}  // namespace outboard
