#include "driver.h"

#include <dlfcn.h>

#include "error.h"

namespace outboard {

Driver Driver::open(const std::string &library) {
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    throw Error("OB_DRIVER_LIBRARY", "the driver library " + library +
                                         " cannot be loaded: " + (why ? why : "no reason given") +
                                         ". Install the NVIDIA driver or name another library.");
  }
  Driver driver;
  std::string missing;
#define OUTBOARD_DRIVER_RESOLVE(name)                                      \
  driver.name = reinterpret_cast<decltype(&::name)>(dlsym(handle, #name)); \
  if (!driver.name) missing += std::string(missing.empty() ? "" : ", ") + #name;
  OUTBOARD_DRIVER_CALLS(OUTBOARD_DRIVER_RESOLVE)
  OUTBOARD_DRIVER_HAND(OUTBOARD_DRIVER_RESOLVE)
#undef OUTBOARD_DRIVER_RESOLVE
  if (!missing.empty()) {
    throw Error("OB_DRIVER_LIBRARY", "the driver library " + library + " lacks " + missing +
                                         ". A driver for CUDA 13.0 or newer is needed.");
  }
  if (CUresult result = driver.cuInit(0); result != CUDA_SUCCESS) {
    throw Error("OB_DRIVER_LIBRARY", "cuInit of " + library +
                                         " failed: " + driver.describe(result) +
                                         ". Check that the device works without Outboard.");
  }
  return driver;
}

std::string Driver::describe(CUresult result) const {
  const char *name = nullptr;
  const char *text = nullptr;
  cuGetErrorName(result, &name);
  cuGetErrorString(result, &text);
  std::string described = name ? name : "error " + std::to_string(static_cast<int>(result));
  if (text) described += std::string(" (") + text + ")";
  return described;
}

}  // namespace outboard
