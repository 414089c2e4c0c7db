#include "entry/modules/load.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

#include "abi_descriptor.h"
#include "core/driver.h"
#include "core/log.h"

namespace softdev::driver {
namespace {

constexpr long kMostFile = 1L << 30;

// Sizes travel in the pointers themselves, and the used size goes back the same way.
std::span<char> find_buffer(const JitLog &jit, CUjit_option buffer_option, CUjit_option size_option,
                            void ***size) {
  char *buffer = nullptr;
  *size = nullptr;
  for (unsigned i = 0; i < jit.count && jit.options && jit.values; i++) {
    if (jit.options[i] == buffer_option) buffer = static_cast<char *>(jit.values[i]);
    if (jit.options[i] == size_option) *size = &jit.values[i];
  }
  if (!buffer || !*size) return {};
  return {buffer, reinterpret_cast<uintptr_t>(**size) & UINT32_MAX};
}

void fill_buffer(const JitLog &jit, CUjit_option buffer_option, CUjit_option size_option,
                 const std::string &text) {
  void **size;
  const std::span<char> buffer = find_buffer(jit, buffer_option, size_option, &size);
  if (!size) return;
  size_t used = 0;
  if (!buffer.empty()) {
    used = std::min(buffer.size() - 1, text.size());
    memcpy(buffer.data(), text.data(), used);
    buffer[used] = 0;
  }
  *size = reinterpret_cast<void *>(used);
}

// Of a log with a line for each failure, the one that has just been added.
std::string last_line(const std::string &text) {
  const size_t end = text.find_last_not_of('\n') + 1;
  const size_t before = end ? text.rfind('\n', end - 1) : std::string::npos;
  const size_t start = before == std::string::npos ? 0 : before + 1;
  return text.substr(start, end - start);
}

void tell_time(const JitLog &jit) {
  float milliseconds = static_cast<float>(now_ns() - jit.started_ns) / 1e6f;
  for (unsigned i = 0; i < jit.count && jit.options && jit.values; i++)
    if (jit.options[i] == CU_JIT_WALL_TIME) memcpy(&jit.values[i], &milliseconds, 4);
}

}  // namespace

std::span<char> JitLog::error_buffer() const {
  void **size;
  return find_buffer(*this, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, &size);
}

CUresult report_load_failure(CUresult result, const std::string &reason, const JitLog &jit) {
  log(Level::kError, "a module was refused: %s", last_line(reason).c_str());
  fill_buffer(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, reason);
  fill_buffer(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
  tell_time(jit);
  return result;
}

void report_load_success(const JitLog &jit) {
  fill_buffer(jit, CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, "");
  fill_buffer(jit, CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, "");
  tell_time(jit);
}

CubinUse cubin_use() {
  const Traits &traits = driver()->settings.traits;
  return {traits.empty_cubins, traits.newer_ptx ? 0 : traits.ptx};
}

CUresult read_image_file(const char *path, std::vector<uint8_t> *bytes) {
  if (!path) return CUDA_ERROR_INVALID_VALUE;
  std::unique_ptr<FILE, int (*)(FILE *)> file(stream_above(path, "r"), fclose);
  if (!file) return refuse(CUDA_ERROR_FILE_NOT_FOUND, "%s: %s", path, strerror(errno));
  struct stat status;
  if (fstat(fileno(file.get()), &status) != 0 || !S_ISREG(status.st_mode))
    return refuse(CUDA_ERROR_FILE_NOT_FOUND, "%s is no file", path);
  if (fseek(file.get(), 0, SEEK_END) != 0) return CUDA_ERROR_OPERATING_SYSTEM;
  long size = ftell(file.get());
  if (size < 0 || size > kMostFile) return CUDA_ERROR_INVALID_IMAGE;
  rewind(file.get());
  bytes->resize(static_cast<size_t>(size));
  if (fread(bytes->data(), 1, bytes->size(), file.get()) != bytes->size())
    return CUDA_ERROR_OPERATING_SYSTEM;
  bytes->push_back(0);  // text ends here
  return CUDA_SUCCESS;
}

CUresult find_variable(const Instance &instance, const char *name, bool managed,
                       CUdeviceptr *address, size_t *size) {
  for (const Variable &variable : instance.program().variables()) {
    if (variable.name != name || (managed && !variable.managed)) continue;
    if (address) *address = variable.address;
    if (size) *size = variable.size;
    return CUDA_SUCCESS;
  }
  return refuse(CUDA_ERROR_NOT_FOUND, "there is no %svariable %s", managed ? "managed " : "", name);
}

}  // namespace softdev::driver
