// Controls of the fake driver, for tests in the same process: they find them with dlsym.
#pragma once

#include <cstdint>

#include "cuda_driver.h"

// The fake driver is a device that computes at once, in the calling thread, unless a `gate` kernel
// holds a stream: then whatever is ordered behind it waits until the gate is opened. Host functions
// run on threads of their own, and hold their streams, too. Nothing in it
// depends on time.
//
// A module is PTX text of lines `kernel NAME SIZE...` (sizes of parameters) and `global NAME
// BYTES`; lines that begin with a point are for others who read it. Kernels by name:
//   nothing                          does nothing
//   gate   u32 number                waits until the gate is open
//   add    u64 at, u64 n, u32 value  adds to n 32-bit numbers
//   print  u64 at                    prints the text there
//   crash                            ends the context with CUDA_ERROR_ILLEGAL_ADDRESS
struct FakeLive {
  unsigned streams, events, libraries, mappings, pinned, graphs;
};

struct FakeControls {
  void (*open_gate)(uint32_t number);
  // For inputs that nobody has written: gates hold nothing, kernels that touch what is not mapped
  // do nothing, and a copy or fill that does ends the process, for the executor must not let it.
  void (*tame)();
  // Waits until a `gate` kernel is the next to run somewhere.
  void (*await_gate)(uint32_t number);
  // The call after `skip` more calls of `function` fails with `result`; then it works again.
  void (*fail)(const char *function, CUresult result, unsigned skip);
  // The call after `skip` more calls of `function` waits for the gate: as where a queue is full.
  void (*hold)(const char *function, uint32_t gate, unsigned skip);
  // Forgets failures, a crash and gates.
  void (*reset)();
  FakeLive (*live)();
  // Memory that was released without having been overwritten with zeros, since the start.
  unsigned (*dirty_releases)();
  // How often `function` was called.
  unsigned (*calls)(const char *function);
  // Limits the device's memory.
  void (*set_memory)(uint64_t bytes);
  // From now on it is so late on the device, for events; until then all of them are 1.5 ms apart.
  void (*set_clock)(double milliseconds);
  // What cuDriverGetVersion says.
  void (*set_version)(int version);
  void (*set_compute_mode)(int mode);
};

extern "C" const FakeControls fake_controls;
