#include "image_search.h"

#include "session.h"

namespace outboard {

ImageSearch::ImageSearch(Session &session, const Hash &hash, uint64_t total)
    : session_(session), hash_(hash), image_(session.device().modules().find(hash, total)) {
  verified_ = image_ != nullptr;
  if (image_) {
    session.pending_images().forget(hash);
    return;
  }
  image_ = session.pending_images().take_complete(hash, total);
}

bool ImageSearch::settle() {
  if (!image_ || verified_) return true;
  if (sha256({image_->data(), image_->size()}) != hash_) {
    session_.violation("an image is not what its hash says");
    return false;
  }
  session_.device().modules().keep(hash_, image_);
  verified_ = true;
  return true;
}

bool options_make_sense(Session &session, std::span<const uint8_t> options) {
  if (options.size() % sizeof(wire_jit_option) == 0 &&
      options.size() / sizeof(wire_jit_option) <= WIRE_JIT_OPTIONS) {
    return true;
  }
  session.violation("malformed options of the compiler: they are not whole, or too many");
  return false;
}

}  // namespace outboard
