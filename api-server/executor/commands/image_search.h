// Looks for an image that a command names by its hash. It is there when the tenant has had it on
// this server before, or the guest has just sent it.
#pragma once

#include <memory>
#include <span>

#include "images/module_store.h"

namespace outboard {

class Session;

// What the image is for. An input of a link is looked for in the process only, and not kept on
// disk: its bytes are in what is made of it, which is kept as a module.
enum class Wanted { kModule, kInput };

class ImageSearch {
 public:
  // Looks where that is quick. Called by the leader. `total` is the size of the image in bytes.
  ImageSearch(Session &session, const Hash &hash, uint64_t total, Wanted wanted);

  // Whether there is nothing left to look through.
  bool over() const;

  // Looks on the disk, and verifies what was sent. Called by the leader, or by a thread that has
  // handed the lead over. False when what was sent does not have the hash; the session is ending
  // then.
  bool settle();

  // Returns what was found. Null: the guest has to send it.
  const std::shared_ptr<const Image> &image() const { return image_; }

  // Keeps it for later processes, once it has turned out to be of use.
  void save();

 private:
  enum class Place { kNowhere, kProcess, kDisk, kSent };

  Session &session_;
  bool on_disk() const;

  const Hash hash_;
  const uint64_t total_;
  const Wanted wanted_;
  std::shared_ptr<const Image> image_;
  Place place_ = Place::kNowhere;
};

// Whether options of the compiler, as they travel, are whole. Ends the session when they are not.
bool options_make_sense(Session &session, std::span<const uint8_t> options);

}  // namespace outboard
