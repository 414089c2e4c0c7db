// Where the parameters of kernels lie, as the image says that the kernels come from. A driver that
// loads lazily loads each kernel that it is asked about.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "images/image_bytes.h"
#include "wire.h"

namespace outboard {

// Where a kernel's parameters lie in the block of bytes that a launch brings.
struct Layout {
  std::vector<wire_parameter> parameters;
  uint32_t bytes = 0;
};
bool operator==(const Layout &a, const Layout &b);

// The device's compute capability: 9 and 0 for sm_90.
struct Capability {
  int major = 0, minor = 0;
};

// Returns the layouts of the kernels of these names, in the same order; nothing for a kernel of
// which the image tells none, or two that differ. All code is read that a device of this capability
// may be given: which of it the driver takes is its own business. For an image that cannot be read
// there are none, and *why has the reason.
std::vector<std::optional<Layout>> read_layouts(const Image &image,
                                                std::span<const std::string_view> names,
                                                Capability capability, std::string *why);

}  // namespace outboard
