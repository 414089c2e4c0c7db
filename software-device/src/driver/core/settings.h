// What the environment and a settings file say about the devices. README.md has the table.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/log.h"
#include "core/traits.h"

namespace softdev::driver {

struct DeviceSettings {
  std::string name = "Software Device";
  uint64_t memory = uint64_t{4} << 30;
  int compute_major = 12;
  int compute_minor = 0;
  int multiprocessors = 4;
  int clock_khz = 1000000;
  // In MIG mode, with instances of so many slices each (instances.h).
  bool mig = false;
  std::vector<int> instances;
};

struct Settings {
  std::vector<DeviceSettings> devices = std::vector<DeviceSettings>(1);
  unsigned workers = 0;   // 0: one per core
  uint64_t disorder = 0;  // the seed; 0: none
  std::string trace;      // a file; empty: none
  uint64_t watchdog = 0;  // seconds that a launch may take; 0: for ever
  int place = -1;         // where the first context's memory lies; -1: anywhere
  // Kernels are held to the bytes of allocations and of shared memory, or only to pages and units.
  bool exact_checks = false;
  Traits traits;
  // CUDA_MODULE_LOADING=EAGER, which also switches lazy loading off.
  bool eager = false;
  Level log = Level::kError;
};

// False, and a sentence in *problem, when a variable or a line of the file that
// SOFTWARE_DEVICE_CONFIG names cannot be used. Variables come after the file, and are for all
// devices.
bool read_settings(Settings *settings, std::string *problem);

}  // namespace softdev::driver
