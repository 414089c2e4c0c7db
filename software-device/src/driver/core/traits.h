// Traits: what NVIDIA's driver does and this one, left to itself, does not. Each is a switch by
// name; docs/software-device/traits.md has the table of them, with why each is there.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/models.h"

namespace softdev::driver {

// Which hints of where addresses are to be reserved are followed: all, none, or only those below or
// from kHighHints on. Where one is not, the driver reserves addresses of its own choice, which are
// from kOwnAddresses on.
enum class Hints { kAll, kIgnored, kLow, kHigh };
inline constexpr uint64_t kHighHints = uint64_t{1} << 46;
#ifdef __SANITIZE_ADDRESS__  // whose shadow is where the driver would go
inline constexpr uint64_t kOwnAddresses = 0x110000000000;
#else
inline constexpr uint64_t kOwnAddresses = 0x302000000;
#endif

inline constexpr uint64_t kUsualGranularity = uint64_t{2} << 20;

struct Traits {
  // How many operations a stream takes before whoever queues one more waits; 0: as many as memory
  // holds.
  unsigned queue = 0;
  // All host functions of the process are called one after the other, on one thread.
  bool serial_host_functions = false;
  Hints hints = Hints::kAll;
  // Who waits for the device spins, unless the context's flags, or the event's, say otherwise.
  bool spinning = false;
  // Contexts, code that is used and the stacks of kernels take memory of the device.
  bool hidden_memory = false;
  // Memory that is given back keeps its bytes for whoever gets it next.
  bool residue = false;
  // Of cuMemCreate, in bytes: what sizes and addresses are multiples of.
  uint64_t granularity = kUsualGranularity;
  // To export memory takes a millisecond.
  bool slow_export = false;
  // Compute mode: one process at a time has contexts on a device. Those that know of each other
  // name the same files, of which this is the beginning; empty: all may.
  std::string exclusive;
  // A file: while it is there, the devices are lost. Empty: they never are.
  std::string lost;
  // Compute mode: nobody has contexts on a device.
  bool prohibited = false;
  // MIG mode, with instances of so many slices each.
  bool mig = false;
  std::vector<int> instances;
  // Processes that name the same files, of which this is the beginning, share devices by time
  // slices; empty: each has its own.
  std::string time_slices;
  // softwareDeviceWorkNs answers nothing, as no GPU has it.
  bool uncounted_work = false;
  // A library is compiled and loaded when it is first used. That may wait for all work of the
  // context, and so may the first use of each function. Meanwhile no work may be started.
  bool lazy_loading = false, lazy_waiting = false, lazy_locking = false;
  // The GPU that devices pass for; null: none.
  const Model *model = nullptr;
  // The CUDA version of the driver: calls that came later do not exist. 0: ABI_DRIVER_VERSION.
  int driver = 0;
  // The newest PTX that a driver of that version compiles, as major * 10 + minor; 0: any.
  int ptx = 0;
  // It compiles newer PTX, too.
  bool newer_ptx = false;
  // Machine code is taken where there is no PTX, and its kernels do nothing.
  bool empty_cubins = false;
};

// What stands behind `mig=`, and behind `mig =` in a file of settings.
inline constexpr std::string_view kInstances =
    "instances of 1g, 2g, 3g, 4g or 7g with '+' between them, of at most 7 slices and 8 eighths of "
    "memory, or none,";

// Reads `names`: traits separated by commas, each `name`, `name=value`, or `-name` for one that an
// earlier name has switched on. False, and a sentence in *problem, where one cannot be used.
bool read_traits(std::string_view names, Traits *traits, std::string *problem);

// Returns the traits that differ from the default, as read_traits takes them; empty when none do.
std::string traits_text(const Traits &traits);

}  // namespace softdev::driver
