// What the GPU machine's own NVML says of a device: sensors, clocks, versions. Its library is
// opened with dlopen, as the driver's is, when somebody asks for the first time.
#pragma once

#include <array>
#include <optional>
#include <string>

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

// Asks NVML about the device of that UUID. Nothing where there is no such library, it cannot be
// used, or it does not know the device. A library is opened once and stays open. Not to be called
// by several threads at once.
std::optional<NvmlFacts> nvml_facts(const std::string &library, const std::string &uuid);

}  // namespace outboard
