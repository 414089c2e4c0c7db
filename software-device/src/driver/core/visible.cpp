#include "core/visible.h"

#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include "abi_visible.h"
#include "core/log.h"
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

abi_visible_device named(std::string_view kind, const CUuuid &uuid) {
  abi_visible_device device = {{}, -1, false};
  uuid_text(kind, uuid).copy(device.name, sizeof device.name - 1);
  return device;
}

// Those of the list, which ends in front of a GPU in MIG mode that has no instance.
std::vector<Visible> listed(const char *value, const std::vector<DeviceSettings> &gpus) {
  std::vector<abi_visible_device> devices;
  std::vector<Visible> all;
  for (int i = 0; i < static_cast<int>(gpus.size()); i++) {
    const auto gpu = gpu_at(i, gpus);
    devices.push_back(named("GPU", gpu_uuid(i)));
    devices.back().number = i;
    devices.back().absent = !gpu;
    all.push_back(gpu.value_or(Visible{i, -1}));
  }
  for (int i = 0; i < static_cast<int>(gpus.size()); i++) {
    const int instances = static_cast<int>(gpus[static_cast<size_t>(i)].instances.size());
    for (int instance = 0; instance < instances; instance++) {
      devices.push_back(named("MIG", instance_uuid(i, instance)));
      all.push_back({i, instance});
    }
  }
  std::vector<int> chosen(devices.size());
  const abi_visible_list list =
      abi_visible_read(value, devices.data(), static_cast<int>(devices.size()), chosen.data());
  char why[512];
  if (abi_visible_explain(&list, value, why, sizeof why)) log(Level::kInfo, "%s", why);
  std::vector<Visible> visible;
  for (int i = 0; i < list.count; i++)
    visible.push_back(all[static_cast<size_t>(chosen[static_cast<size_t>(i)])]);
  return visible;
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
