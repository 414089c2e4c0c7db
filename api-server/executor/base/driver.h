// The device, reached through a driver library and nothing else: a table of its entry points, each
// with its reason in docs/driver-symbols.md. Those that start work on the device are apart: only
// the gate gives them out (gate.h), and only the scrubber, the porter of pages, and who moves a
// session, have some of their own.
#pragma once

#include <cstdint>
#include <string>

#include "base/error.h"
#include "cuda_driver.h"
#include "driver_calls.h"
#include "driver_symbols.h"

namespace outboard {

#define OUTBOARD_DRIVER_MEMBER(name) decltype(&::name) name = nullptr;

// What starts work.
struct WorkCalls {
  OUTBOARD_WORK_CALLS(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_WORK_HAND(OUTBOARD_DRIVER_MEMBER)
};

// ... kept from everybody else.
class WorkDriver {
  friend struct Driver;
  friend class Gate;
  friend class Holds;
  friend class MoveArea;
  friend class PagePorter;
  friend class Scrubber;
  WorkCalls calls_;
};

// The driver is there, and shows this process no device.
struct NoDevice : Error {
  using Error::Error;
};

struct Driver {
  OUTBOARD_DRIVER_CALLS(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_DRIVER_MANDATORY(OUTBOARD_DRIVER_MEMBER)
  OUTBOARD_DRIVER_OPTIONAL(OUTBOARD_DRIVER_MEMBER)
  WorkDriver work;

  // Nanoseconds of work done for a context, by so many workers. Only the software device has it.
  CUresult (*softwareDeviceWorkNs)(CUcontext, uint64_t *, uint32_t *) = nullptr;

  // Loads the library and initialises it. It stays loaded for the life of the process: drivers do
  // not expect to be unloaded. What came with a later CUDA than the library says it is of is not
  // used, though it may export it. Throws Error, or NoDevice.
  static Driver open(const std::string &library);

  // "CUDA_ERROR_X (what it means)"
  std::string describe(CUresult result) const;
};

#undef OUTBOARD_DRIVER_MEMBER

// Of several calls that are all made, whatever becomes of them, the first failure is what is told.
inline void keep_first(CUresult &first, CUresult result) {
  if (first == CUDA_SUCCESS) first = result;
}

}  // namespace outboard
