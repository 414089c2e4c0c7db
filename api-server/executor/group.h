// Launches in one stream that are measured together, between two events.
#pragma once

#include <cstdint>
#include <vector>

#include "driver.h"
#include "kernel_times.h"

namespace outboard {

class Gate;

struct Group {
  // Launches of one kernel.
  struct Use {
    KernelCost *kernel;
    uint64_t launches;
    uint64_t blocks;
    uint64_t predicted;
  };

  Gate *gate = nullptr;
  CUevent start = nullptr;
  CUevent end = nullptr;

  CUstream stream = nullptr;
  std::vector<Use> uses;
  uint64_t launches = 0;
  uint64_t blocks = 0;
  uint64_t predicted = 0;
  uint64_t sequence = 0;  // in order of posting
  bool known = true;      // all its kernels have been measured before
  bool full = false;      // nothing is to be added
  bool broken = false;    // the driver took no events
  bool closed = false;    // its end is posted

  // What the gate's counters have of it.
  bool counted = false;
  bool counted_unknown = false;
  uint64_t unit = 0;
  uint64_t charged = 0;
  uint64_t in_flight = 0;

  // With a ticket, its work does not start before it is granted.
  bool ticketed = false;
  bool granted = false;

  void clear() {
    uses.clear();
    launches = blocks = predicted = sequence = unit = charged = in_flight = 0;
    known = true;
    full = broken = closed = counted = counted_unknown = ticketed = granted = false;
  }
};

}  // namespace outboard
