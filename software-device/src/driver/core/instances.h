// Instances of a GPU in MIG mode (the trait `mig`): its memory and its multiprocessors in parts,
// each a device of its own.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace softdev::driver {

struct DeviceSettings;

// The slices of each instance, in order: "1g+2g" is 1 and 2. "none" is MIG mode without instances.
// False where they are no instances, or more than a GPU has.
bool parse_instances(std::string_view text, std::vector<int> *slices);
std::string instances_text(const std::vector<int> &slices);

// Returns an instance of that many slices as a device: its name, memory and multiprocessors.
DeviceSettings instance_of(const DeviceSettings &gpu, int slices);

}  // namespace softdev::driver
