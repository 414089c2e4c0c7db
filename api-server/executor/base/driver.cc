#include "base/driver.h"

#include <dlfcn.h>

#include <string_view>
#include <type_traits>

#include "base/error.h"
#include "driver_versions.h"

namespace outboard {
namespace {

struct Later {
  std::string_view name;
  int version;
};
constexpr Later kLater[] = {
#define OUTBOARD_LATER_ROW(name, version) {#name, version},
    OUTBOARD_LATER_CALLS(OUTBOARD_LATER_ROW)
#undef OUTBOARD_LATER_ROW
};

// What does the same in drivers that are older than a function.
struct Stand {
  std::string_view name;
  const char *older;
};
constexpr Stand kStands[] = {
#define OUTBOARD_STAND_ROW(name, other) {#name, #other},
    OUTBOARD_STAND_INS(OUTBOARD_STAND_ROW)
#undef OUTBOARD_STAND_ROW
};

constexpr int since(std::string_view name) {
  for (const Later &later : kLater)
    if (later.name == name) return later.version;
  return OUTBOARD_OLDEST_DRIVER;
}

constexpr const char *older(std::string_view name) {
  for (const Stand &stand : kStands)
    if (stand.name == name) return stand.older;
  return nullptr;
}

constexpr bool oldest_has(std::string_view name) {
  return since(name) == OUTBOARD_OLDEST_DRIVER || older(name);
}

int version_of(void *handle) {
  int version = 0;
  const auto ask =
      reinterpret_cast<decltype(&cuDriverGetVersion)>(dlsym(handle, "cuDriverGetVersion"));
  return ask && ask(&version) == CUDA_SUCCESS ? version : 0;
}

std::string cuda(int version) {
  return "CUDA " + std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

Driver Driver::open(const std::string &library) {
  void *handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char *why = dlerror();
    throw Error("OB_DRIVER_LIBRARY", "the driver library " + library +
                                         " cannot be loaded: " + (why ? why : "no reason given") +
                                         ". Install the NVIDIA driver or name another library.");
  }
  const int version = version_of(handle);
  if (version && version < OUTBOARD_OLDEST_DRIVER) {
    throw Error("OB_DRIVER_LIBRARY", "the driver library " + library + " is of " + cuda(version) +
                                         ". Install NVIDIA's driver " OUTBOARD_OLDEST_DRIVER_TEXT
                                         " or a newer one.");
  }
  Driver driver;
  std::string missing;
  const auto find = [&](auto &call, const char *name) {
    const char *const symbol = since(name) <= version ? name : older(name);
    call = reinterpret_cast<std::remove_reference_t<decltype(call)>>(symbol ? dlsym(handle, symbol)
                                                                            : nullptr);
    return call != nullptr;
  };
  const auto need = [&](auto &call, const char *name) {
    if (!find(call, name)) missing += std::string(missing.empty() ? "" : ", ") + name;
  };
#define OUTBOARD_DRIVER_NEED(name)                                                  \
  static_assert(oldest_has(#name), #name " is not in the oldest driver of proto/"); \
  need(driver.name, #name);
#define OUTBOARD_WORK_NEED(name)                                                    \
  static_assert(oldest_has(#name), #name " is not in the oldest driver of proto/"); \
  need(driver.work.calls_.name, #name);
  OUTBOARD_DRIVER_CALLS(OUTBOARD_DRIVER_NEED)
  OUTBOARD_DRIVER_MANDATORY(OUTBOARD_DRIVER_NEED)
  OUTBOARD_WORK_CALLS(OUTBOARD_WORK_NEED)
  OUTBOARD_WORK_HAND(OUTBOARD_WORK_NEED)
#undef OUTBOARD_WORK_NEED
#undef OUTBOARD_DRIVER_NEED
#define OUTBOARD_DRIVER_FIND(name) find(driver.name, #name);
  OUTBOARD_DRIVER_OPTIONAL(OUTBOARD_DRIVER_FIND)
#undef OUTBOARD_DRIVER_FIND
  driver.softwareDeviceWorkNs = reinterpret_cast<decltype(driver.softwareDeviceWorkNs)>(
      dlsym(handle, "softwareDeviceWorkNs"));
  if (!missing.empty()) {
    throw Error("OB_DRIVER_LIBRARY", "the driver library " + library + " lacks " + missing +
                                         ". Install NVIDIA's driver " OUTBOARD_OLDEST_DRIVER_TEXT
                                         " or a newer one.");
  }
  if (CUresult result = driver.cuInit(0); result != CUDA_SUCCESS) {
    const std::string message = "cuInit of " + library + " failed: " + driver.describe(result) +
                                ". Check that the device works without Outboard.";
    if (result == CUDA_ERROR_NO_DEVICE) throw NoDevice("OB_DRIVER_LIBRARY", message);
    throw Error("OB_DRIVER_LIBRARY", message);
  }
  // It answers nothing where it is to be as a GPU's driver, which has no such call.
  uint64_t ns;
  uint32_t workers;
  if (driver.softwareDeviceWorkNs &&
      driver.softwareDeviceWorkNs(nullptr, &ns, &workers) == CUDA_ERROR_NOT_SUPPORTED)
    driver.softwareDeviceWorkNs = nullptr;
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
