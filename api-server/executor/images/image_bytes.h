// The bytes of an image, and the hash by which it is known.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace outboard {

// A digest of 256 bits as the wire has it: four little-endian words.
using Hash = std::array<uint64_t, 4>;

// Returns the BLAKE2b-256 hash of the bytes.
Hash blake2b(std::span<const uint8_t> bytes);

// The bytes of an image. Eight zeros follow them, so that a text at the end is terminated.
class Image {
 public:
  // Makes an image of `size` bytes, which are still to be written. Null when there is no memory.
  static std::shared_ptr<Image> make(uint64_t size);
  uint8_t *data() { return bytes_.get(); }
  const uint8_t *data() const { return bytes_.get(); }
  uint64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(uint8_t *p) const { free(p); }
  };
  std::unique_ptr<uint8_t, Free> bytes_;
  uint64_t size_ = 0;
};

}  // namespace outboard
