// An image that a command names by its hash: known to this server to have been the tenant's, or
// sent by the guest just before.
#pragma once

#include <memory>
#include <span>

#include "images/module_store.h"

namespace outboard {

class Session;

// What it is for. Inputs of links are looked for in the process only: they come back in what is
// made of them, which is kept as a module.
enum class Wanted { kModule, kInput };

class ImageSearch {
 public:
  // By the leader: looks where looking is quick.
  ImageSearch(Session &session, const Hash &hash, uint64_t total, Wanted wanted);

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
  const uint64_t total_;
  const Wanted wanted_;
  std::shared_ptr<const Image> image_;
  Place place_ = Place::kNowhere;
};

// Options of the compiler as they travel; the session is at its end when they are not whole.
bool options_make_sense(Session &session, std::span<const uint8_t> options);

}  // namespace outboard
