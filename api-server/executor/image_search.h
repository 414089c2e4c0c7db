// An image that a command names by its hash: known to this server, or sent by the guest just
// before.
#pragma once

#include <memory>
#include <span>

#include "module_store.h"

namespace outboard {

class Session;

// Whose images are looked through. A module is only ever loaded, so all tenants share what has been
// sent. An input of a link comes back in the result: whoever knows its hash must not get its bytes.
enum class Sharing { kAll, kTenant };

class ImageSearch {
 public:
  // By the leader: looks where looking is quick.
  ImageSearch(Session &session, const Hash &hash, uint64_t total, Sharing sharing);

  // Whether there is nothing left to look through.
  bool over() const;

  // By the leader or after it has handed over: looks on the disk, and verifies what was sent. False
  // when that is not what its hash says; the session is at its end then.
  bool settle();

  // Null: the guest is to send it.
  const std::shared_ptr<const Image> &image() const { return image_; }

  // Keeps it for later processes, once it has turned out to be of use.
  void save();

 private:
  enum class Place { kNowhere, kProcess, kDisk, kSent };

  Session &session_;
  bool on_disk() const;

  const Hash hash_;
  const Hash key_;  // in the store
  const uint64_t total_;
  const Sharing sharing_;
  std::shared_ptr<const Image> image_;
  Place place_ = Place::kNowhere;
};

// Options of the compiler as they travel; the session is at its end when they are not whole.
bool options_make_sense(Session &session, std::span<const uint8_t> options);

}  // namespace outboard
