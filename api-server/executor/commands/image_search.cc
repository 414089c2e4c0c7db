#include "commands/image_search.h"

#include "session/session.h"

namespace outboard {

ImageSearch::ImageSearch(Session &session, const Hash &hash, uint64_t total, Wanted wanted)
    : session_(session),
      hash_(hash),
      total_(total),
      wanted_(wanted),
      image_(session.device().modules().find(hash, total, session.sharer().tenant)) {
  if (image_) {
    place_ = Place::kProcess;
    session.pending_images().forget(hash);
    return;
  }
  image_ = session.pending_images().take_complete(hash, total);
  if (image_) place_ = Place::kSent;
}

bool ImageSearch::on_disk() const {
  return wanted_ == Wanted::kModule && session_.device().modules().on_disk();
}

bool ImageSearch::over() const { return !image_ && !on_disk(); }

bool ImageSearch::settle() {
  ModuleStore &store = session_.device().modules();
  if (place_ == Place::kNowhere && on_disk() &&
      (image_ = store.fetch(hash_, total_, session_.sharer().tenant))) {
    place_ = Place::kDisk;
  }
  if (place_ != Place::kSent) return true;
  if (blake2b({image_->data(), image_->size()}) != hash_) {
    session_.violation("an image is not what its hash says");
    return false;
  }
  store.keep(hash_, image_, session_.sharer().tenant);
  return true;
}

void ImageSearch::save() {
  if (place_ != Place::kSent || !on_disk()) return;
  session_.device().modules().save(hash_, *image_, session_.sharer().tenant);
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
