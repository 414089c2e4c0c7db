#include "core/visible.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>

#include "core/uuid.h"

namespace softdev::driver {
namespace {

// A GPU; in MIG mode its first instance, where it has one.
std::optional<Visible> gpu_at(int number, const std::vector<DeviceSettings> &gpus) {
  const DeviceSettings &gpu = gpus[static_cast<size_t>(number)];
  if (!gpu.mig) return Visible{number, -1};
  if (gpu.instances.empty()) return std::nullopt;
  return Visible{number, 0};
}

// A prefix of the UUID that fits one GPU only.
std::optional<Visible> by_gpu_uuid(std::string_view text, const std::vector<DeviceSettings> &gpus) {
  int chosen = -1;
  for (int i = 0; i < static_cast<int>(gpus.size()); i++) {
    if (!uuid_text("GPU", gpu_uuid(i)).starts_with(text)) continue;
    if (chosen >= 0) return std::nullopt;
    chosen = i;
  }
  if (chosen < 0) return std::nullopt;
  return gpu_at(chosen, gpus);
}

// The whole UUID.
std::optional<Visible> by_instance_uuid(std::string_view text,
                                        const std::vector<DeviceSettings> &gpus) {
  for (int i = 0; i < static_cast<int>(gpus.size()); i++) {
    const int instances = static_cast<int>(gpus[static_cast<size_t>(i)].instances.size());
    for (int instance = 0; instance < instances; instance++)
      if (uuid_text("MIG", instance_uuid(i, instance)) == text) return Visible{i, instance};
  }
  return std::nullopt;
}

std::optional<Visible> named(std::string_view text, const std::vector<DeviceSettings> &gpus) {
  if (text.starts_with("GPU-")) return by_gpu_uuid(text, gpus);
  if (text.starts_with("MIG-")) return by_instance_uuid(text, gpus);
  int number = 0;
  const char *const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end || number < 0 || number >= static_cast<int>(gpus.size()))
    return std::nullopt;
  return gpu_at(number, gpus);
}

std::string_view without_blanks(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

// The list ends at the first entry that names no device, or one that is in it already.
std::vector<Visible> listed(std::string_view rest, const std::vector<DeviceSettings> &gpus) {
  std::vector<Visible> visible;
  for (;;) {
    const size_t comma = rest.find(',');
    const auto found = named(without_blanks(rest.substr(0, comma)), gpus);
    if (!found) return visible;
    for (const Visible &before : visible)
      if (before.gpu == found->gpu && before.instance == found->instance) return visible;
    visible.push_back(*found);
    if (comma == rest.npos) return visible;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace

std::vector<Visible> visible_devices(const char *value, const std::vector<DeviceSettings> &gpus) {
  std::vector<Visible> visible;
  if (value) {
    visible = listed(value, gpus);
  } else {
    for (int i = 0; i < static_cast<int>(gpus.size()); i++)
      if (const auto gpu = gpu_at(i, gpus)) visible.push_back(*gpu);
  }
  const auto instance = std::find_if(visible.begin(), visible.end(),
                                     [](const Visible &one) { return one.instance >= 0; });
  if (instance != visible.end()) visible = {*instance};
  return visible;
}

}  // namespace softdev::driver
