#include "image_search.h"

#include <sys/random.h>

#include "session.h"

namespace outboard {

namespace {

// Of this process, and nobody else's.
const Hash &secret() {
  static const Hash made = [] {
    Hash bytes;
    for (size_t at = 0; at < sizeof bytes;) {
      auto *to = reinterpret_cast<uint8_t *>(bytes.data()) + at;
      const ssize_t got = getrandom(to, sizeof bytes - at, 0);
      if (got > 0) at += static_cast<size_t>(got);
    }
    return bytes;
  }();
  return made;
}

// For what only sessions of one tenant may find: a name that no guest can give, or a question for a
// module of that name would tell what others have linked.
Hash key_of(const Hash &hash, const std::string &tenant) {
  std::string text(reinterpret_cast<const char *>(secret().data()), sizeof(Hash));
  text.append(reinterpret_cast<const char *>(hash.data()), sizeof hash);
  text += tenant;
  return sha256({reinterpret_cast<const uint8_t *>(text.data()), text.size()});
}

}  // namespace

ImageSearch::ImageSearch(Session &session, const Hash &hash, uint64_t total, Sharing sharing)
    : session_(session),
      hash_(hash),
      key_(sharing == Sharing::kAll ? hash : key_of(hash, session.sharer().tenant)),
      total_(total),
      sharing_(sharing),
      image_(session.device().modules().find(key_, total)) {
  if (image_) {
    place_ = Place::kProcess;
    session.pending_images().forget(hash);
    return;
  }
  image_ = session.pending_images().take_complete(hash, total);
  if (image_) place_ = Place::kSent;
}

bool ImageSearch::on_disk() const {
  return sharing_ == Sharing::kAll && session_.device().modules().on_disk();
}

bool ImageSearch::over() const { return !image_ && !on_disk(); }

bool ImageSearch::settle() {
  ModuleStore &store = session_.device().modules();
  if (place_ == Place::kNowhere && on_disk() && (image_ = store.fetch(hash_, total_))) {
    place_ = Place::kDisk;
  }
  if (place_ != Place::kSent) return true;
  if (sha256({image_->data(), image_->size()}) != hash_) {
    session_.violation("an image is not what its hash says");
    return false;
  }
  store.keep(key_, image_);
  return true;
}

void ImageSearch::save() {
  if (place_ == Place::kSent && on_disk()) session_.device().modules().save(hash_, *image_);
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
