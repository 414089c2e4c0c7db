// An image that a command names by its hash: known to this server, or sent by the guest just
// before.
#pragma once

#include <memory>
#include <span>

#include "module_store.h"

namespace outboard {

class Session;

class ImageSearch {
 public:
  // By the leader: looks where looking is quick.
  ImageSearch(Session &session, const Hash &hash, uint64_t total);

  // By the leader or after it has handed over: verifies what was sent, which takes time. False when
  // it is not what its hash says; the session is at its end then.
  bool settle();

  // Null: the guest is to send it.
  const std::shared_ptr<const Image> &image() const { return image_; }
  bool found() const { return image_ != nullptr; }

 private:
  Session &session_;
  const Hash hash_;
  std::shared_ptr<const Image> image_;
  bool verified_ = false;
};

// Options of the compiler as they travel; the session is at its end when they are not whole.
bool options_make_sense(Session &session, std::span<const uint8_t> options);

}  // namespace outboard
