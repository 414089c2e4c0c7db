// What a program gives us to load, and the PTX in it that a device can run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "abi_fatbin.h"
#include "cuda_driver.h"

namespace softdev::driver {

// PTX as it came: text, or compressed. It is unpacked when it is needed.
class Image {
 public:
  // Picks the best PTX for a device of this compute capability out of an image of any kind, and
  // keeps a copy of it. `limit` is ABI_NO_LIMIT where the length is not known. On failure *reason
  // has a sentence.
  CUresult choose(const void *image, size_t limit, int major, int minor, std::string *reason);

  // The text. Memory beyond what the content justifies is not used, whatever it claims.
  CUresult unpack(std::string *ptx, std::string *reason) const;

  uint32_t arch() const { return arch_; }  // of the chosen PTX; 0 for plain text

 private:
  CUresult choose_entry(const std::vector<abi_fatbin_entry> &candidates, std::string *reason);

  std::vector<uint8_t> bytes_;
  uint64_t flags_ = 0;
  uint64_t claimed_ = 0;  // size of the text, when compressed
  uint32_t arch_ = 0;
};

}  // namespace softdev::driver
