#include "device/server_nvml.h"

#include <dlfcn.h>

#include <map>

#include "nvml_api.h"

namespace outboard {
namespace {

// The functions of one library, each looked up when it is called: older ones lack some.
class Library {
 public:
  explicit Library(const std::string &name) : handle_(dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    usable_ = handle_ && call<decltype(nvmlInit_v2)>("nvmlInit_v2");
  }

  bool usable() const { return usable_; }

  // Whether the function is there and succeeds.
  template <typename Function, typename... Arguments>
  bool call(const char *name, Arguments... arguments) const {
    auto function = reinterpret_cast<Function *>(dlsym(handle_, name));
    return function && function(arguments...) == NVML_SUCCESS;
  }

 private:
  void *handle_;
  bool usable_ = false;
};

#define ASK(function, ...) library.call<decltype(function)>(#function, __VA_ARGS__)

std::optional<NvmlFacts> facts_of(const Library &library, const std::string &uuid) {
  nvmlDevice_t device;
  if (!ASK(nvmlDeviceGetHandleByUUID, uuid.c_str(), &device)) return std::nullopt;
  nvmlDevice_t gpu;
  if (ASK(nvmlDeviceGetDeviceHandleFromMigDeviceHandle, device, &gpu)) device = gpu;
  NvmlFacts facts;
  char text[NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE] = "";
  if (ASK(nvmlSystemGetDriverVersion, text, sizeof text)) facts.nvidia_driver = text;
  if (ASK(nvmlSystemGetNVMLVersion, text, sizeof text)) facts.nvml_version = text;
  unsigned value = 0;
  if (ASK(nvmlDeviceGetTemperature, device, NVML_TEMPERATURE_GPU, &value))
    facts.temperature = value;
  if (ASK(nvmlDeviceGetTemperatureThreshold, device, NVML_TEMPERATURE_THRESHOLD_SLOWDOWN, &value))
    facts.temperature_slowdown = value;
  if (ASK(nvmlDeviceGetTemperatureThreshold, device, NVML_TEMPERATURE_THRESHOLD_SHUTDOWN, &value))
    facts.temperature_shutdown = value;
  if (ASK(nvmlDeviceGetPowerUsage, device, &value)) facts.power = value;
  if (ASK(nvmlDeviceGetEnforcedPowerLimit, device, &value)) facts.power_limit = value;
  if (ASK(nvmlDeviceGetFanSpeed, device, &value)) facts.fan_speed = value;
  if (ASK(nvmlDeviceGetMemoryBusWidth, device, &value)) facts.memory_bus_width = value;
  nvmlPstates_t state;
  if (ASK(nvmlDeviceGetPerformanceState, device, &state)) facts.performance_state = state;
  nvmlBrandType_t brand;
  if (ASK(nvmlDeviceGetBrand, device, &brand)) facts.brand = brand;
  nvmlPciInfo_t pci{};
  if (ASK(nvmlDeviceGetPciInfo_v3, device, &pci)) {
    facts.pci_device_id = pci.pciDeviceId;
    facts.pci_subsystem_id = pci.pciSubSystemId;
  }
  for (unsigned type = 0; type < facts.clocks.size(); type++) {
    const auto clock = static_cast<nvmlClockType_t>(type);
    if (ASK(nvmlDeviceGetClockInfo, device, clock, &value)) facts.clocks[type] = value;
    if (ASK(nvmlDeviceGetMaxClockInfo, device, clock, &value)) facts.max_clocks[type] = value;
  }
  return facts;
}

std::string uuid_of(const Library &library, nvmlDevice_t device) {
  char text[NVML_DEVICE_UUID_V2_BUFFER_SIZE] = "";
  return ASK(nvmlDeviceGetUUID, device, text, sizeof text) ? text : "";
}

MachineGpu gpu_of(const Library &library, nvmlDevice_t device) {
  MachineGpu gpu;
  gpu.uuid = uuid_of(library, device);
  unsigned current = NVML_DEVICE_MIG_DISABLE, pending = 0, most = 0;
  gpu.mig =
      ASK(nvmlDeviceGetMigMode, device, &current, &pending) && current == NVML_DEVICE_MIG_ENABLE;
  if (!gpu.mig || !ASK(nvmlDeviceGetMaxMigDeviceCount, device, &most)) return gpu;
  for (unsigned i = 0; i < most; i++) {
    nvmlDevice_t instance;
    if (!ASK(nvmlDeviceGetMigDeviceHandleByIndex, device, i, &instance)) continue;
    if (std::string uuid = uuid_of(library, instance); !uuid.empty())
      gpu.instances.push_back(std::move(uuid));
  }
  return gpu;
}

const Library &opened(const std::string &name) {
  static std::map<std::string, Library> all;
  return all.try_emplace(name, name).first->second;
}

}  // namespace

std::optional<std::vector<MachineGpu>> machine_gpus(const std::string &name) {
  const Library &library = opened(name);
  unsigned count = 0;
  if (!library.usable() || !ASK(nvmlDeviceGetCount_v2, &count)) return std::nullopt;
  std::vector<MachineGpu> gpus;
  for (unsigned i = 0; i < count; i++) {
    nvmlDevice_t device;
    if (ASK(nvmlDeviceGetHandleByIndex_v2, i, &device)) gpus.push_back(gpu_of(library, device));
  }
  return gpus;
}

std::optional<NvmlFacts> nvml_facts(const std::string &name, const std::string &uuid) {
  const Library &library = opened(name);
  if (!library.usable()) return std::nullopt;
  return facts_of(library, uuid);
}

}  // namespace outboard
