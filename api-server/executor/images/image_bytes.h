// Bytes of an image, and the hash that it is known by.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>

namespace outboard {

// The digest as the wire has it: four little-endian words.
using Hash = std::array<uint64_t, 4>;

Hash sha256(std::span<const uint8_t> bytes);

// Bytes of an image; eight zeros follow them, so that a text at the end is terminated.
class Image {
 public:
  // Null when there is no memory for it.
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
