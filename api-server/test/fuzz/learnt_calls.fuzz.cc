// What sessions have learnt of libraries, as it comes back from the monitor, on any bytes. What is
// taken of it must be the same when it is kept and taken again.
#include "libraries/learnt_calls.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  outboard::LearntCalls calls("a library");
  // With the maker that it looks for, which no input is likely to guess.
  calls.is_used();
  std::vector<uint8_t> input = calls.kept();
  input.insert(input.end(), data, data + size);
  calls.take(input);
  const std::vector<uint8_t> kept = calls.kept();
  if (kept.size() > outboard::LearntCalls::kMostBytes) __builtin_trap();
  outboard::LearntCalls again("a library");
  again.is_used();
  again.take(kept);
  if (again.kept() != kept) __builtin_trap();
  for (const auto &call : again.all())
    if (call.key == 0 || call.arguments.size() > outboard::LearntCalls::kMostArguments / 8)
      __builtin_trap();
  return 0;
}
