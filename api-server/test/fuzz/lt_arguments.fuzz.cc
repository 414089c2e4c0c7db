// Arguments of a call of cuBLASLt, on any bytes: the first is its function. What is said to be
// reachable must be within the memory that there is.
#include <cstring>

#include "libraries/lt_arguments.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr uint64_t kMemory = 0x400000000000, kSize = 1 << 20;
  if (size < 8) return 0;
  outboard::LtArguments arguments;
  // One function more than there are.
  if (arguments.decode(data[0] % (LT_FUNCTION_COUNT + 1), {data + 8, size - 8})) return 0;
  if (arguments.function >= LT_FUNCTION_COUNT) __builtin_trap();
  if (!arguments.starts()) return 0;
  const bool all = arguments.are_reachable([](uint64_t address, uint64_t bytes) {
    if (address + bytes < address || bytes == 0) __builtin_trap();
    return address >= kMemory && address <= kMemory + kSize && bytes <= kMemory + kSize - address;
  });
  // Two of its rows are always looked for.
  if (all && arguments.function == LT_MATMUL) {
    const outboard::LtDescriptor &d = arguments.layouts[3];
    const bool any = d.whole(LT_AT_ROWS) > 0 && d.whole(LT_AT_COLUMNS) > 0 &&
                     d.number(LT_AT_BATCH) > 0 && arguments.matmul.d;
    if (any && (arguments.matmul.d >> 40) != (kMemory >> 40)) __builtin_trap();
  }
  return static_cast<int>(arguments.text().empty());
}
