// GPUs that the software device can pass for: the trait `device`. The figures are the vendor's
// public ones; how much memory there is stays the software device's own.
#pragma once

#include <string_view>

#include "cuda_driver.h"

namespace softdev::driver {

// What there is room for on a multiprocessor. Shared memory in bytes; `reserved` is what each block
// has of it beside its own.
struct Multiprocessor {
  int threads, blocks;
  int shared, shared_of_block, reserved;
};

struct Model {
  std::string_view name;  // of the trait
  const char *product;
  int compute_major, compute_minor;
  int multiprocessors;
  int clock_khz, memory_clock_khz;
  int bus_bits;
  int cache_bytes;
  int copy_engines;
  bool data_center;  // has NVLink, or is made for servers with it
  Multiprocessor multiprocessor;
};

// Null when there is none of that name.
const Model *find_model(std::string_view name);

// Sets *value where the attribute differs from that of the software device by itself, and returns
// whether it does.
bool model_attribute(const Model &model, CUdevice_attribute which, int *value);

}  // namespace softdev::driver
