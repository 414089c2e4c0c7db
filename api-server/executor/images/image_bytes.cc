#include "images/image_bytes.h"

#include <sodium/crypto_generichash_blake2b.h>

namespace outboard {

// Without sodium_init: its portable code is what is used then, which is the faster one here.
Hash blake2b(std::span<const uint8_t> bytes) {
  Hash hash;
  crypto_generichash_blake2b(reinterpret_cast<unsigned char *>(hash.data()), sizeof hash,
                             bytes.data(), bytes.size(), nullptr, 0);
  return hash;
}

std::shared_ptr<Image> Image::make(uint64_t size) {
  auto image = std::make_shared<Image>();
  // Not touched before bytes arrive: a guest that announces much and sends little costs little.
  image->bytes_.reset(static_cast<uint8_t *>(calloc(1, size + 8)));
  image->size_ = size;
  return image->bytes_ ? image : nullptr;
}

}  // namespace outboard
