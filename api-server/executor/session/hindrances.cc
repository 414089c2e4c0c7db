#include "session/hindrances.h"

#include "session/session.h"

namespace outboard {

Hindered::Hindered(Session &session, Hindrance hindrance)
    : session_(session), hindrance_(hindrance) {
  session_.hinder(hindrance_);
}

// Who has handed the lead over may not look at the leader's tables: what was noted stays.
Hindered::~Hindered() {
  if (ThreadPool::leads()) session_.reconsider(hindrance_);
}

void Session::hinder(Hindrance hindrance) {
  counters_->hindrances.fetch_or(bit_of(hindrance), std::memory_order_relaxed);
}

void Session::reconsider(Hindrance hindrance) {
  if (still_has(hindrance)) return;
  counters_->hindrances.fetch_and(~bit_of(hindrance), std::memory_order_relaxed);
}

// What others may still have of it, or what left something that nobody counts, stays for good.
bool Session::still_has(Hindrance hindrance) const {
  switch (hindrance) {
    case Hindrance::kArrays:
      return !arrays_.empty();
    case Hindrance::kTextures:
      return textures_.count() > 0;
    case Hindrance::kTextureReferences:
      return textures_.has_references();
    case Hindrance::kGraphs:
      return !graphs_.empty();
    case Hindrance::kLinks:
      return !links_.empty();
    case Hindrance::kLibraries:
      return !libraries_.empty();
    case Hindrance::kManyObjects:
      return !recipes_.whole() || !load_log_.whole();
    default:
      return true;
  }
}

}  // namespace outboard
