// libFuzzer: any bytes through the reader of files, and what it finds through the choice and the
// unpacking of PTX. Where a program only hands us a pointer there is no limit to check; here there
// is one, and nothing beyond it may be read.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "modules/image.h"
#include "tools/check/containers.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  using namespace softdev;
  check::find_images({data, size}, [&](const check::Found &found) {
    if (found.image.data() < data || found.image.data() + found.image.size() > data + size)
      std::abort();
    if (check::is_hollow(found.image)) return;
    driver::Image image;
    std::string reason, ptx;
    if (image.choose(found.image.data(), found.image.size(), 12, 0, &reason) == CUDA_SUCCESS)
      image.unpack(&ptx, &reason);
  });
  return 0;
}
