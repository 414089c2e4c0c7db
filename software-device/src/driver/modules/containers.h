// Where GPU code lies in files: programs, libraries, objects, archives, fatbins, PTX.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace softdev::driver {

using Bytes = std::span<const uint8_t>;

// One thing that a program would hand to the driver: a fatbin, PTX text or a cubin.
struct Found {
  Bytes image;
  std::string where;  // in the file: the member of an archive, or empty
  // Of a program that is linked on the device (-rdc=true): only all such pieces together are a
  // program.
  bool piece = false;
};

// Calls `visit` for everything in the file, in order. Returns a sentence when the file is of no
// known kind or damaged; what was found before stays visited. Safe for any bytes.
std::string find_images(Bytes file, const std::function<void(const Found &)> &visit);

// Whether an image holds no kernel at all, as the fatbin that nvcc's device link leaves in every
// program. False when that cannot be told without unpacking it.
bool is_hollow(Bytes image);

// PTX in the form of a cubin, for what insists on one: `Image` takes the text out again.
std::vector<uint8_t> wrap_ptx(std::string_view ptx, uint32_t arch);

}  // namespace softdev::driver
