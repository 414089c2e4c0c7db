// Arguments of a library's call, on any bytes: the first two are its number, the third is the
// pointer mode. What is said to be reachable must be within the memory that there is.
#include <cstring>

#include "cublas_calls.h"
#include "libraries/library_arguments.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr uint64_t kMemory = 0x400000000000, kSize = 1 << 20;
  if (size < 8) return 0;
  uint16_t function;
  memcpy(&function, data, sizeof function);
  const library_call &call = cublas_calls[function % CUBLAS_CALL_COUNT];
  outboard::LibraryArguments arguments;
  if (arguments.decode(call, data[2], {data + 8, size - 8})) return 0;
  const bool all = arguments.are_reachable([](uint64_t address, uint64_t bytes) {
    if (address + bytes < address) __builtin_trap();
    return address >= kMemory && address <= kMemory + kSize && bytes <= kMemory + kSize - address;
  });
  // Every number lies here or is one of the guest's.
  const auto *const self = reinterpret_cast<const uint8_t *>(&arguments);
  for (uint32_t i = 0; i < call.count; i++) {
    if (!library_in_host(&call.arguments[i], data[2])) continue;
    const auto *const place = reinterpret_cast<const uint8_t *>(arguments.words()[i]);
    if (!place && call.arguments[i].optional) continue;
    if (place < self || place + LIBRARY_SCALAR_MAX > self + sizeof arguments) __builtin_trap();
  }
  if (arguments.results_size() > LIBRARY_SCALARS_MAX) __builtin_trap();
  return static_cast<int>(all && arguments.text().empty());
}
