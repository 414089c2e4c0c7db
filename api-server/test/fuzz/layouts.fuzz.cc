// Images of any bytes, by those who read them: layouts of kernels and names of variables. The first
// byte says what kind of image the others are.
#include "images/layouts.h"

#include <cstring>

#include "images/variable_names.h"
#include "wire.h"

using namespace outboard;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size < 1) return 0;
  static constexpr uint32_t kKinds[] = {WIRE_IMAGE_FATBIN, WIRE_IMAGE_ELF, WIRE_IMAGE_PTX};
  const wire_image_part part{kKinds[data[0] % 3], 0, --size};
  const std::shared_ptr<Image> image = Image::make(sizeof part + size);
  memcpy(image->data(), &part, sizeof part);
  if (size) memcpy(image->data() + sizeof part, data + 1, size);
  static constexpr std::string_view kNames[] = {"k", "m", "kernel"};
  std::string why;
  const auto layouts = read_layouts(*image, kNames, {9, 0}, &why);
  if (layouts.size() != std::size(kNames)) __builtin_trap();
  for (const auto &layout : layouts) {
    uint64_t end = 0;
    if (layout && !why.empty()) __builtin_trap();
    if (!layout) continue;
    for (const auto &[offset, bytes] : layout->parameters) {
      if (offset < end || bytes == 0) __builtin_trap();
      end = uint64_t{offset} + bytes;
    }
    if (end != layout->bytes || end > 64 << 10) __builtin_trap();
  }
  variable_names(*image, &why);
  return 0;
}
