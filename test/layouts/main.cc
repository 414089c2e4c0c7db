// Whether images tell of kernels' parameters what the driver tells.
//
//   compare-layouts LIBCUDA FILE...
//
// Loads the code in each file, a program or a library compiled by nvcc or a cubin, on the first
// device and compares. Writes a line for each file that has code, `FILE MODULES REFUSED KERNELS
// KNOWN`: how many modules were loaded and how many the driver has refused, how many kernels they
// have, and of how many the image tells. Writes each difference to stderr, and ends with 1 when
// there was one.
#include <elf.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "abi_fatbin.h"
#include "base/error.h"
#include "images/module.h"

using namespace outboard;

namespace {

struct Counts {
  size_t modules = 0, refused = 0, kernels = 0, known = 0, different = 0;
};

std::string shown(const Layout &layout) {
  std::string text;
  for (const auto &[offset, size] : layout.parameters)
    text += " " + std::to_string(size) + " at " + std::to_string(offset);
  return text.empty() ? " none" : text;
}

struct Device {
  explicit Device(const char *library) : driver(Driver::open(library)) {
    CUdevice device = 0;
    CUcontext context = nullptr;
    if (driver.cuDeviceGet(&device, 0) || driver.cuDevicePrimaryCtxRetain(&context, device) ||
        driver.cuCtxSetCurrent(context))
      throw Error("OB_DEVICE", "the first device cannot be used");
    driver.cuDeviceGetAttribute(&capability.major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                device);
    driver.cuDeviceGetAttribute(&capability.minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                device);
  }
  const Driver driver;
  Capability capability;
};

// An image as guests send it.
class Parts {
 public:
  void add(uint32_t kind, std::string_view code) {
    const wire_image_part part{kind, 0, code.size()};
    bytes_.append(reinterpret_cast<const char *>(&part), sizeof part);
    bytes_ += code;
    bytes_.resize((bytes_.size() + 7) & ~size_t{7});
  }
  std::shared_ptr<Image> image() const {
    std::shared_ptr<Image> image = Image::make(bytes_.size());
    memcpy(image->data(), bytes_.data(), bytes_.size());
    return image;
  }

 private:
  std::string bytes_;
};

void compare(const Device &device, const Parts &parts, const char *file, Counts *counts) {
  std::unique_ptr<Module> module;
  Compiling compiling;
  if (Module::load(device.driver, parts.image(), &compiling, &module) != CUDA_SUCCESS) {
    ++counts->refused;
    return;
  }
  ++counts->modules;
  std::string why;
  counts->kernels += module->kernels.size();
  counts->known += module->kernels.size() - module->read_layouts(device.capability, &why);
  for (uint32_t i = 0; i < module->kernels.size(); i++) {
    const Layout *const told = module->told_layout(i);
    const std::optional<Layout> asked = layout_of(device.driver, module->kernels[i].object);
    if (!told || (asked && *asked == *told)) continue;
    ++counts->different;
    fprintf(stderr, "%s: %s: the image tells%s, the driver%s\n", file,
            module->kernels[i].name.c_str(), shown(*told).c_str(),
            asked ? shown(*asked).c_str() : " nothing");
  }
  device.driver.cuLibraryUnload(module->library);
}

// The bytes of a section of a program; empty where there is none.
std::string_view section(std::string_view file, std::string_view name) {
  Elf64_Ehdr head;
  if (file.size() < sizeof head) return {};
  memcpy(&head, file.data(), sizeof head);
  const auto header = [&](size_t index) {
    Elf64_Shdr one{};
    const size_t at = head.e_shoff + index * sizeof one;
    if (at + sizeof one <= file.size()) memcpy(&one, file.data() + at, sizeof one);
    return one;
  };
  const Elf64_Shdr names = header(head.e_shstrndx);
  for (size_t i = 0; i < head.e_shnum; i++) {
    const Elf64_Shdr one = header(i);
    if (file.substr(names.sh_offset + one.sh_name).starts_with(std::string(name) + '\0'))
      return file.substr(one.sh_offset, one.sh_size);
  }
  return {};
}

// Calls `f(container)` with each of those that lie one behind the other, and zeros between them.
template <class F>
void each_container(std::string_view section, F f) {
  while (section.size() >= 8) {
    const size_t size = abi_image_kind(section.data(), section.size()) == ABI_IMAGE_FATBIN
                            ? abi_image_size(section.data(), section.size())
                            : 0;
    if (size) f(section.substr(0, size));
    section.remove_prefix(std::min(size ? (size + 7) & ~size_t{7} : 8, section.size()));
  }
}

// Returns the number of differences.
size_t compare_file(const Device &device, const char *name) {
  std::ifstream stream(name, std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  Counts counts;
  Elf64_Ehdr head{};
  memcpy(&head, file.data(), std::min(sizeof head, file.size()));
  constexpr uint16_t kCudaMachine = 190;
  if (head.e_machine == kCudaMachine) {
    Parts parts;
    parts.add(WIRE_IMAGE_ELF, file);
    compare(device, parts, name, &counts);
  } else {
    // Pieces that were linked on the device are of one program.
    Parts pieces;
    bool linked = false;
    each_container(section(file, "__nv_relfatbin"), [&](std::string_view code) {
      linked = true;
      pieces.add(WIRE_IMAGE_FATBIN, code);
    });
    if (linked) compare(device, pieces, name, &counts);
    each_container(section(file, ".nv_fatbin"), [&](std::string_view code) {
      Parts parts;
      parts.add(WIRE_IMAGE_FATBIN, code);
      compare(device, parts, name, &counts);
    });
  }
  if (counts.modules + counts.refused)
    printf("%s %zu %zu %zu %zu\n", name, counts.modules, counts.refused, counts.kernels,
           counts.known);
  return counts.different;
}

}  // namespace

int main(int count, char **words) {
  if (count < 3) {
    fprintf(stderr, "usage: compare-layouts LIBCUDA FILE...\n");
    return 2;
  }
  try {
    const Device device(words[1]);
    size_t different = 0;
    for (int i = 2; i < count; i++) different += compare_file(device, words[i]);
    return different ? 1 : 0;
  } catch (const Error &error) {
    fprintf(stderr, "%s\n", error.what());
    return 2;
  }
}
