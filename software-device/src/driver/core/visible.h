// Which of the machine's devices a process sees: CUDA_VISIBLE_DEVICES, and what MIG mode makes of
// it.
#pragma once

#include <vector>

#include "core/settings.h"

namespace softdev::driver {

struct Visible {
  int gpu;       // number of the machine's GPU
  int instance;  // of that GPU; -1: all of it
};

// The devices that CUDA_VISIBLE_DEVICES leaves, in its order; `value` is null when it is not set.
// A process sees one instance and nothing else, or GPUs that are not in MIG mode: where there is an
// instance among those that it may see, it sees the first one.
std::vector<Visible> visible_devices(const char *value, const std::vector<DeviceSettings> &gpus);

}  // namespace softdev::driver
