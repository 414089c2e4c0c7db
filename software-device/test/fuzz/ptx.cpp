// libFuzzer: any text through the parser and the translator. Nothing is executed.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "engine.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace softdev;
  // Variables get real memory, as much as one input deserves.
  std::vector<std::unique_ptr<uint8_t[]>> memory;
  AllocateGlobal allocate = [&](size_t bytes, size_t align, Storage) -> uint64_t {
    if (bytes > (1 << 20) || align > 4096) return 0;
    memory.push_back(std::make_unique<uint8_t[]>(bytes + align));
    auto address = reinterpret_cast<uint64_t>(memory.back().get());
    return (address + align - 1) / align * align;
  };
  Status status;
  auto program =
      Program::load(std::string(reinterpret_cast<const char *>(data), size), allocate, &status);
  if ((program != nullptr) != status.ok()) std::abort();
  if (!program) return 0;
  for (Kernel *kernel : program->kernels()) {
    Status translated = kernel->translate();
    if (!translated.ok() && translated.message.empty()) std::abort();
    if (translated.ok() && kernel->attributes().max_threads > 1024) std::abort();
  }
  return 0;
}
