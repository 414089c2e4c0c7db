// Launching a kernel in a stream.
#pragma once

#include <memory>

#include "engine.h"
#include "modules/module.h"
#include "streams/stream.h"

namespace softdev::driver {

struct LaunchRequest {
  const void *function = nullptr;  // CUfunction or CUkernel
  Dim3 grid, block;
  unsigned dynamic_shared = 0;
  bool cooperative = false;
  void **parameters = nullptr;
  void **extra = nullptr;
};

CUresult launch(const StreamRef &stream, const LaunchRequest &request);

// Blocks of a kernel that a multiprocessor holds at once.
int blocks_per_multiprocessor(const KernelAttributes &attributes, int block_threads,
                              size_t dynamic_shared);

// The most dynamic shared memory a launch may ask for, as the program has set it.
int dynamic_shared_limit(const KernelAttributes &attributes, const FunctionSettings &settings);

}  // namespace softdev::driver
