// What the GPU machine's own NVML says: which GPUs and instances there are, and of a device its
// sensors, clocks, versions. Its library is opened with dlopen, as the driver's is, when somebody
// asks for the first time.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

namespace outboard {

// What is absent is not known.
struct NvmlFacts {
  std::string nvidia_driver;
  std::string nvml_version;
  std::optional<unsigned> temperature;  // degrees Celsius
  std::optional<unsigned> temperature_slowdown;
  std::optional<unsigned> temperature_shutdown;
  std::optional<unsigned> power;  // milliwatts
  std::optional<unsigned> power_limit;
  std::optional<unsigned> fan_speed;  // percent
  std::optional<unsigned> performance_state;
  std::optional<unsigned> brand;
  std::optional<unsigned> memory_bus_width;
  std::optional<unsigned> pci_device_id;
  std::optional<unsigned> pci_subsystem_id;
  std::array<unsigned, 4> clocks{};  // MHz by nvmlClockType_t; 0: not known
  std::array<unsigned, 4> max_clocks{};
};

// A GPU of the machine, whatever this process sees by CUDA. UUIDs are as NVML writes them.
struct MachineGpu {
  std::string uuid;
  bool mig = false;                    // MIG mode: only its instances are devices of CUDA
  std::vector<std::string> instances;  // those that there are
};

// Asks NVML which GPUs there are, in its order. Nothing where there is no such library, or it
// cannot be used. What instances there are is known for the life of the process: a library that is
// open goes on telling of those that are destroyed. Not to be called by several threads at once.
std::optional<std::vector<MachineGpu>> machine_gpus(const std::string &library);

// Asks NVML about the device of that UUID; of an instance, about its GPU. Nothing where there is no
// such library, it cannot be used, or it does not know the device. A library is opened once and
// stays open. Not to be called by several threads at once.
std::optional<NvmlFacts> nvml_facts(const std::string &library, const std::string &uuid);

}  // namespace outboard
