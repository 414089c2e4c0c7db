// libFuzzer: any bytes through the reader of files, and what it finds through the choice, the
// unpacking and the linking of PTX, and what cubins say of themselves. Where a program only hands
// us a pointer there is no limit to check; here there is one, and nothing beyond it may be read.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "modules/containers.h"
#include "modules/cubin.h"
#include "modules/image.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace softdev::driver;
  std::string reason, ptx;
  find_images({data, size}, [&](const Found &found) {
    if (found.image.data() < data || found.image.data() + found.image.size() > data + size)
      std::abort();
    if (is_hollow(found.image)) return;
    Image image;
    if (image.choose(found.image.data(), found.image.size(), 12, 0, {.taken = true}, &reason) ||
        image.unpack(&ptx, &reason) || !image.is_cubin())
      return;
    Cubin cubin;
    const Bytes file(reinterpret_cast<const uint8_t *>(ptx.data()), ptx.size());
    if (!read_cubin(file, &cubin).empty()) return;
    for (const CubinVariable &variable : cubin.variables)
      if (!variable.initial.empty() && variable.initial.size() != variable.size) std::abort();
  });
  std::vector<PtxPart> parts;
  if (Image::collect(data, size, 12, 0, &parts, &reason) == CUDA_SUCCESS) {
    Image whole;
    whole.assemble(std::move(parts));
    whole.unpack(&ptx, &reason);
  }
  return 0;
}
