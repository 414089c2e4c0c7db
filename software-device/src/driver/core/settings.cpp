#include "core/settings.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

namespace softdev::driver {
namespace {

constexpr int kMostDevices = 64;
constexpr uint64_t kMostSeconds = 86400;
constexpr uint64_t kLeastMemory = uint64_t{2} << 20;
constexpr uint64_t kMostMemory = uint64_t{1} << 40;

const char *variable(const char *name) {
  const char *value = getenv(name);
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

std::string wrong(const char *name, const char *value, const char *expected) {
  return std::string(name) + "=" + value + " is not usable: expected " + expected;
}

}  // namespace

bool read_settings(Settings *settings, std::string *problem) {
  uint64_t number;
  if (const char *value = variable("SOFTWARE_DEVICE_LOG"))
    if (!parse_level(value, &settings->log)) {
      *problem = wrong("SOFTWARE_DEVICE_LOG", value, "error, warn, info or debug");
      return false;
    }
  if (const char *value = variable("SOFTWARE_DEVICE_GPUS")) {
    if (!parse_number(value, &number) || number > kMostDevices) {
      *problem = wrong("SOFTWARE_DEVICE_GPUS", value, "a number of devices from 0 to 64");
      return false;
    }
    settings->gpus = static_cast<int>(number);
  }
  if (const char *value = variable("SOFTWARE_DEVICE_MEMORY")) {
    if (!parse_bytes(value, &number) || number < kLeastMemory || number > kMostMemory) {
      *problem = wrong("SOFTWARE_DEVICE_MEMORY", value,
                       "bytes per device, with K, M or G behind them, from 2M to 1024G");
      return false;
    }
    settings->memory = number / kLeastMemory * kLeastMemory;
  }
  if (const char *value = variable("SOFTWARE_DEVICE_WORKERS")) {
    if (!parse_number(value, &number) || number < 1 || number > 1024) {
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
  if (const char *value = variable("SOFTWARE_DEVICE_NAME")) settings->name = value;
  if (const char *value = variable("SOFTWARE_DEVICE_COMPUTE_CAPABILITY"))
    if (!parse_capability(value, &settings->compute_major, &settings->compute_minor)) {
      *problem = wrong("SOFTWARE_DEVICE_COMPUTE_CAPABILITY", value, "a version such as 9.0");
      return false;
    }
  return true;
}

std::vector<int> visible_devices(const char *value, const std::vector<std::string> &uuids) {
  std::vector<int> visible;
  int count = static_cast<int>(uuids.size());
  if (!value) {
    for (int i = 0; i < count; i++) visible.push_back(i);
    return visible;
  }
  // The list ends at the first entry that names no device, or one that is in it already.
  std::string_view rest = value;
  for (;;) {
    size_t comma = rest.find(',');
    std::string_view entry = rest.substr(0, comma);
    while (!entry.empty() && entry.front() == ' ') entry.remove_prefix(1);
    while (!entry.empty() && entry.back() == ' ') entry.remove_suffix(1);
    int chosen = -1;
    uint64_t index;
    if (entry.substr(0, 4) == "GPU-") {
      for (int i = 0; i < count; i++) {
        if (uuids[static_cast<size_t>(i)].compare(0, entry.size(), entry) != 0) continue;
        if (chosen >= 0) return visible;  // a prefix of two devices names none
        chosen = i;
      }
    } else if (parse_number(entry, &index) && index < static_cast<uint64_t>(count)) {
      chosen = static_cast<int>(index);
    }
    if (chosen < 0 || std::find(visible.begin(), visible.end(), chosen) != visible.end())
      return visible;
    visible.push_back(chosen);
    if (comma == std::string_view::npos) return visible;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace softdev::driver
