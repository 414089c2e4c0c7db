// What a program gives us to load, and the PTX in it that a device can run; or the machine code for
// it, of which this device makes kernels that do nothing (the trait `empty-cubins`).
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "abi_fatbin.h"
#include "cuda_driver.h"

namespace softdev::driver {

// PTX as it came: text, or compressed. It is unpacked when it is needed. A cubin likewise.
struct PtxPart {
  std::vector<uint8_t> bytes;
  uint64_t flags = 0;
  uint64_t claimed = 0;  // size of the text, when compressed
  uint32_t arch = 0;     // 0 for plain text
  std::string name;      // of the source, for messages
  bool cubin = false;
  int version = 0;  // of PTX in a fatbin, 90 for 9.0
};

// Whether machine code for a device will do where there is no PTX that it can execute, or only such
// as is later than `newest_ptx` (90 for 9.0; 0: none is).
struct CubinUse {
  bool taken = false;
  int newest_ptx = 0;
};

class Image {
 public:
  // Picks the best PTX for a device of this compute capability out of an image of any kind, and
  // keeps a copy of it. `limit` is ABI_NO_LIMIT where the length is not known. On failure
  // *reason has a sentence.
  CUresult choose(const void *image, size_t limit, int major, int minor, CubinUse cubins,
                  std::string *reason);

  // The text, or the cubin's bytes; text of a program in pieces (-rdc=true) is linked. Memory
  // beyond what the content justifies is not used, whatever it claims.
  CUresult unpack(std::string *code, std::string *reason) const;
  // Whether a cubin was chosen.
  bool is_cubin() const { return parts_.size() == 1 && parts_.front().cubin; }

  // Takes what `collect` found.
  void assemble(std::vector<PtxPart> parts) { parts_ = std::move(parts); }

  // All pieces in anything that holds GPU code: an object, an archive, a program, too.
  static CUresult collect(const void *file, size_t size, int major, int minor,
                          std::vector<PtxPart> *parts, std::string *reason);

  // Of the chosen PTX, the highest where there are pieces; 0 for plain text.
  uint32_t arch() const;

 private:
  CUresult choose_cubin(std::span<const uint8_t> file, int major, int minor, std::string *reason);

  std::vector<PtxPart> parts_;
};

CUresult unpack(const PtxPart &part, std::string *code, std::string *reason);

}  // namespace softdev::driver
