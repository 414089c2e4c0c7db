#include "core/settings.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>

#include "abi_descriptor.h"
#include "core/instances.h"

namespace softdev::driver {
namespace {

constexpr size_t kMostDevices = 64;
constexpr uint64_t kMostSeconds = 86400;
constexpr uint64_t kMostPlaces = 16;
constexpr uint64_t kLeastMemory = uint64_t{2} << 20;
constexpr uint64_t kMostMemory = uint64_t{1} << 40;

const char *variable(const char *name) {
  const char *value = secure_getenv(name);
  return value && *value ? value : nullptr;
}

// A whole decimal number, nothing else.
bool parse_number(std::string_view text, uint64_t *number) {
  if (text.empty() || text.size() > 19) return false;
  uint64_t value = 0;
  for (char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + static_cast<uint64_t>(c - '0');
  }
  *number = value;
  return true;
}

bool parse_bytes(std::string_view text, uint64_t *bytes) {
  int shift = 0;
  if (!text.empty()) {
    switch (text.back()) {
      case 'k':
      case 'K':
        shift = 10;
        break;
      case 'm':
      case 'M':
        shift = 20;
        break;
      case 'g':
      case 'G':
        shift = 30;
        break;
      default:
        break;
    }
  }
  if (shift) text.remove_suffix(1);
  uint64_t number;
  if (!parse_number(text, &number) || number > (UINT64_MAX >> shift)) return false;
  *bytes = number << shift;
  return true;
}

bool parse_capability(std::string_view text, int *major, int *minor) {
  size_t dot = text.find('.');
  uint64_t high, low = 0;
  if (!parse_number(text.substr(0, dot), &high)) return false;
  if (dot != std::string_view::npos && !parse_number(text.substr(dot + 1), &low)) return false;
  if (high < 5 || high > 99 || low > 9) return false;
  *major = static_cast<int>(high);
  *minor = static_cast<int>(low);
  return true;
}

bool parse_level(std::string_view text, Level *level) {
  constexpr std::string_view names[] = {"error", "warn", "info", "debug"};
  for (size_t i = 0; i < std::size(names); i++)
    if (text == names[i]) {
      *level = static_cast<Level>(i);
      return true;
    }
  return false;
}

bool parse_count(std::string_view text, uint64_t least, uint64_t most, uint64_t *number) {
  return parse_number(text, number) && *number >= least && *number <= most;
}

// One setting of a device, by its name in the file. What is expected, when the value is wrong;
// empty when it was taken.
std::string_view set(DeviceSettings *device, std::string_view key, std::string_view value) {
  uint64_t number;
  if (key == "name") {
    device->name = value;
    return {};
  }
  if (key == "memory") {
    if (!parse_bytes(value, &number) || number < kLeastMemory || number > kMostMemory)
      return "bytes per device, with K, M or G behind them, from 2M to 1024G";
    device->memory = number / kLeastMemory * kLeastMemory;
    return {};
  }
  if (key == "compute_capability")
    return parse_capability(value, &device->compute_major, &device->compute_minor)
               ? std::string_view()
               : "a version such as 9.0";
  if (key == "multiprocessors") {
    if (!parse_count(value, 1, 1024, &number)) return "a number from 1 to 1024";
    device->multiprocessors = static_cast<int>(number);
    return {};
  }
  if (key == "clock_mhz") {
    if (!parse_count(value, 1, 100000, &number)) return "megahertz, from 1 to 100000";
    device->clock_khz = static_cast<int>(number) * 1000;
    return {};
  }
  if (key == "mig") {
    device->mig = true;
    return parse_instances(value, &device->instances) ? std::string_view() : kInstances;
  }
  return "name, memory, compute_capability, multiprocessors, clock_mhz or mig";
}

std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blank = " \t\r\n";
  size_t first = text.find_first_not_of(blank);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(blank) - first + 1);
}

// Lines `key = value`; `[device]` begins a device, and those before the first one are for all.
bool read_file(const char *path, Settings *settings, std::string *problem) {
  std::unique_ptr<FILE, int (*)(FILE *)> file(stream_above(path, "r"), fclose);
  if (!file) {
    *problem =
        std::string("SOFTWARE_DEVICE_CONFIG=") + path + " cannot be read: " + strerror(errno);
    return false;
  }
  DeviceSettings common;
  std::vector<DeviceSettings> devices;
  char buffer[1024];
  for (int line = 1; fgets(buffer, sizeof buffer, file.get()); line++) {
    std::string_view text = buffer;
    text = trimmed(text.substr(0, text.find('#')));
    if (text.empty()) continue;
    auto wrong = [&](std::string_view expected) {
      *problem = std::string(path) + ", line " + std::to_string(line) + ": '" + std::string(text) +
                 "' is not usable: expected " + std::string(expected);
      return false;
    };
    if (text == "[device]") {
      if (devices.size() == kMostDevices) return wrong("at most 64 devices");
      devices.push_back(common);
      continue;
    }
    size_t equals = text.find('=');
    if (equals == text.npos) return wrong("[device], or a name, '=' and a value");
    DeviceSettings &device = devices.empty() ? common : devices.back();
    std::string_view expected =
        set(&device, trimmed(text.substr(0, equals)), trimmed(text.substr(equals + 1)));
    if (!expected.empty()) return wrong(expected);
  }
  if (devices.empty()) devices.push_back(common);
  settings->devices = std::move(devices);
  return true;
}

std::string wrong(const char *name, const char *value, std::string_view expected) {
  return std::string(name) + "=" + value + " is not usable: expected " + std::string(expected);
}

}  // namespace

bool read_settings(Settings *settings, std::string *problem) {
  uint64_t number;
  if (const char *value = variable("SOFTWARE_DEVICE_LOG"))
    if (!parse_level(value, &settings->log)) {
      *problem = wrong("SOFTWARE_DEVICE_LOG", value, "error, warn, info or debug");
      return false;
    }
  if (const char *path = variable("SOFTWARE_DEVICE_CONFIG"))
    if (!read_file(path, settings, problem)) return false;
  if (const char *value = variable("SOFTWARE_DEVICE_GPUS")) {
    if (!parse_count(value, 0, kMostDevices, &number)) {
      *problem = wrong("SOFTWARE_DEVICE_GPUS", value, "a number of devices from 0 to 64");
      return false;
    }
    // More than the file describes are like its last one.
    DeviceSettings last = settings->devices.back();
    settings->devices.resize(static_cast<size_t>(number), last);
  }
  if (const char *value = variable("SOFTWARE_DEVICE_WORKERS")) {
    if (!parse_count(value, 1, 1024, &number)) {
      *problem = wrong("SOFTWARE_DEVICE_WORKERS", value, "a number of threads from 1 to 1024");
      return false;
    }
    settings->workers = static_cast<unsigned>(number);
  }
  if (const char *value = variable("SOFTWARE_DEVICE_DISORDER"))
    if (!parse_number(value, &settings->disorder)) {
      *problem = wrong("SOFTWARE_DEVICE_DISORDER", value, "a seed, a number; 0 for none");
      return false;
    }
  if (const char *value = variable("SOFTWARE_DEVICE_TRACE")) settings->trace = value;
  if (const char *value = variable("SOFTWARE_DEVICE_PLACE")) {
    if (!parse_count(value, 0, kMostPlaces - 1, &number)) {
      *problem = wrong("SOFTWARE_DEVICE_PLACE", value, "a number from 0 to 15");
      return false;
    }
    settings->place = static_cast<int>(number);
  }
  if (const char *value = variable("SOFTWARE_DEVICE_WATCHDOG")) {
    if (!parse_number(value, &number) || number > kMostSeconds) {
      *problem = wrong("SOFTWARE_DEVICE_WATCHDOG", value, "seconds from 0 (never) to 86400");
      return false;
    }
    settings->watchdog = number;
  }
  if (const char *value = variable("SOFTWARE_DEVICE_CHECKS")) {
    if (std::string_view(value) != "exact" && std::string_view(value) != "pages") {
      *problem = wrong("SOFTWARE_DEVICE_CHECKS", value, "exact or pages");
      return false;
    }
    settings->exact_checks = std::string_view(value) == "exact";
  }
  if (const char *value = variable("SOFTWARE_DEVICE_TRAITS"))
    if (!read_traits(value, &settings->traits, problem)) {
      *problem = "SOFTWARE_DEVICE_TRAITS: " + *problem;
      return false;
    }
  if (const char *value = variable("CUDA_MODULE_LOADING");
      value && value == std::string_view("EAGER")) {
    settings->eager = true;
    settings->traits.lazy_loading = false;
    settings->traits.lazy_waiting = settings->traits.lazy_locking = false;
  }
  if (const Model *model = settings->traits.model) {
    for (DeviceSettings &device : settings->devices) {
      device.name = model->product;
      device.compute_major = model->compute_major;
      device.compute_minor = model->compute_minor;
      device.multiprocessors = model->multiprocessors;
      device.clock_khz = model->clock_khz;
    }
  }
  if (settings->traits.mig)
    for (DeviceSettings &device : settings->devices) {
      device.mig = true;
      device.instances = settings->traits.instances;
    }
  constexpr std::pair<const char *, const char *> kForAll[] = {
      {"SOFTWARE_DEVICE_MEMORY", "memory"},
      {"SOFTWARE_DEVICE_NAME", "name"},
      {"SOFTWARE_DEVICE_COMPUTE_CAPABILITY", "compute_capability"},
      {"SOFTWARE_DEVICE_MULTIPROCESSORS", "multiprocessors"},
  };
  for (auto [name, key] : kForAll)
    if (const char *value = variable(name))
      for (DeviceSettings &device : settings->devices)
        if (std::string_view expected = set(&device, key, value); !expected.empty()) {
          *problem = wrong(name, value, expected);
          return false;
        }
  return true;
}

}  // namespace softdev::driver
