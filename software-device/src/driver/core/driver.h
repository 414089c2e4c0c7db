// All state of the driver in this process. It is made by cuInit and never destroyed: the runtime
// calls us after the destructors of this library would have run.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "core/device.h"
#include "core/handles.h"
#include "core/settings.h"
#include "engine.h"
#include "memory/memory.h"
#include "streams/context.h"
#include "streams/helpers.h"
#include "streams/watcher.h"

namespace softdev::driver {

struct Driver {
  explicit Driver(Settings as_read);

  const Settings settings;
  std::vector<std::unique_ptr<Device>> devices;  // those that are visible
  Handles handles;
  Memory memory;
  // Functions of the program may wait for anything, so copies have threads of their own.
  Helpers copiers, callers;
  Watcher watcher;

  // Starts the workers at first use: a program that only asks questions gets no threads.
  Engine &engine();
  Device *device(CUdevice ordinal);  // nullptr when there is none

 private:
  std::once_flag engine_once_;
  std::unique_ptr<Engine> engine_;
};

// nullptr before cuInit has succeeded, and in a child that was forked afterwards.
Driver *driver();

// cuInit.
CUresult initialise();

// What cuDriverGetVersion says, which programs ask before cuInit: the version of ours, or an older
// one by a trait.
int driver_version();
// Some calls may be refused before they are looked at, by the traits `driver` and `lost-gpu`.
extern std::atomic<bool> calls_are_refused;
// Whether the devices are lost now (the trait `lost-gpu`), which is said once.
bool devices_are_lost();

// The calling thread's context, ready for work: otherwise why not.
CUresult enter(std::shared_ptr<Context> *context);

// For a call that knows by what it is given where it works: the same, but nullptr where no context
// is current, or none that is alive.
CUresult enter_anywhere(std::shared_ptr<Context> *context);

// CUDA_ERROR_NOT_INITIALIZED, CUDA_ERROR_NOT_PERMITTED (inside a host function) or CUDA_SUCCESS.
CUresult enter();

// While one lives, the calling thread runs a function of the program for a stream, from where
// CUDA allows no calls.
class HostFunctionScope {
 public:
  HostFunctionScope();
  ~HostFunctionScope();
};

}  // namespace softdev::driver
