#include "base/driver.h"

#include <dlfcn.h>

#include <type_traits>

#include "base/error.h"

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
  const auto resolve = [&](auto &call, const char *name) {
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(dlsym(handle, name));
    if (!call) missing += std::string(missing.empty() ? "" : ", ") + name;
  };
#define OUTBOARD_DRIVER_RESOLVE(name) resolve(driver.name, #name);
#define OUTBOARD_WORK_RESOLVE(name) resolve(driver.work.calls_.name, #name);
  OUTBOARD_DRIVER_CALLS(OUTBOARD_DRIVER_RESOLVE)
  OUTBOARD_DRIVER_HAND(OUTBOARD_DRIVER_RESOLVE)
  OUTBOARD_DRIVER_OCCUPANCY(OUTBOARD_DRIVER_RESOLVE)
  OUTBOARD_DRIVER_GRAPHS(OUTBOARD_DRIVER_RESOLVE)
  OUTBOARD_DRIVER_LINKS(OUTBOARD_DRIVER_RESOLVE)
  OUTBOARD_DRIVER_SHARING(OUTBOARD_DRIVER_RESOLVE)
  OUTBOARD_WORK_CALLS(OUTBOARD_WORK_RESOLVE)
  OUTBOARD_WORK_HAND(OUTBOARD_WORK_RESOLVE)
#undef OUTBOARD_DRIVER_RESOLVE
#define OUTBOARD_DRIVER_RESOLVE(name) \
  driver.name = reinterpret_cast<decltype(driver.name)>(dlsym(handle, #name));
  OUTBOARD_DRIVER_PEERS(OUTBOARD_DRIVER_RESOLVE)
#undef OUTBOARD_DRIVER_RESOLVE
#undef OUTBOARD_WORK_RESOLVE
  driver.softwareDeviceWorkNs = reinterpret_cast<decltype(driver.softwareDeviceWorkNs)>(
      dlsym(handle, "softwareDeviceWorkNs"));
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
