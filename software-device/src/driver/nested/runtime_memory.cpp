#include "nested/runtime_memory.h"

#include <cstring>

#include "abi_result.h"
#include "nested/error_names.h"

namespace softdev::driver {

RuntimeMemory::RuntimeMemory(uint64_t base) {
  uint64_t at = base;
  auto put = [&](const char *text) {
    const uint64_t begin = at;
    const size_t bytes = strlen(text) + 1;
    memcpy(reinterpret_cast<void *>(at), text, bytes);
    at += bytes;
    return begin;
  };
  for (unsigned i = 0; i < kRuntimeErrorCount; i++) {
    const RuntimeError &row = kRuntimeErrors[i];
    const char *sentence = row.sentence ? row.sentence : abi_result_sentence(row.error);
    texts_[row.error] = {put(row.name), put(sentence ? sentence : "an error of the runtime")};
  }
  const uint64_t unknown = put("unrecognized error code");
  unknown_ = {unknown, unknown};
  at = (at + 255) & ~uint64_t{255};
  parameters_.place(at, base + kBytes - at);
}

}  // namespace softdev::driver
