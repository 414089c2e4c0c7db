// What loading a module and loading a library share.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "cuda_driver.h"
#include "modules/module.h"
#include "streams/operation.h"

namespace softdev::driver {

// The options of a load call, for the log buffers among them.
struct JitLog {
  CUjit_option *options;
  void **values;
  unsigned count;
  int64_t started_ns = now_ns();

  bool complete() const { return !count || (options && values); }
  // The buffer for what is wrong; empty where there is none.
  std::span<char> error_buffer() const;
};

// Logs why nothing was loaded, writes it to the program's log buffer too, and returns `result`.
CUresult report_load_failure(CUresult result, const std::string &reason, const JitLog &jit);
// Tells the program that its log buffers stay empty, and how long it took.
void report_load_success(const JitLog &jit);

// What the traits say of machine code.
CubinUse cubin_use();

CUresult read_image_file(const char *path, std::vector<uint8_t> *bytes);

CUresult find_variable(const Instance &instance, const char *name, bool managed,
                       CUdeviceptr *address, size_t *size);

}  // namespace softdev::driver
