// Images by the SHA-256 of their bytes. They stay in the process for later sessions, the least
// recently used ones go first; and on disk, where the server has a folder for them.
//
// Lock: mutex_, innermost.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "image_bytes.h"
#include "module_files.h"

namespace outboard {

// An image on its way, in pieces that may come in any order.
class PendingImage {
 public:
  explicit PendingImage(std::shared_ptr<Image> image) : image_(std::move(image)) {}
  const std::shared_ptr<Image> &image() const { return image_; }
  // False when it lies in more fragments than anybody has reason to send.
  bool arrived(uint64_t offset, uint64_t length);
  bool complete() const;

 private:
  static constexpr size_t kMostFragments = 4096;
  std::shared_ptr<Image> image_;
  std::map<uint64_t, uint64_t> present_;  // start to end, apart from each other
};

class ModuleStore {
 public:
  explicit ModuleStore(uint64_t limit = 1 << 30) : limit_(limit) {}

  // Before any session.
  void use(std::unique_ptr<ModuleFiles> files) { files_ = std::move(files); }

  // Of the process; quick.
  std::shared_ptr<const Image> find(const Hash &hash, uint64_t size);
  // The image's hash has been verified.
  void keep(const Hash &hash, std::shared_ptr<const Image> image);

  // Names of variables that are in an image: what programs asked for once, they ask for again. Not
  // so many, nor so long, that they matter.
  void learn(const Hash &hash, const std::string &name);
  std::vector<std::string> names(const Hash &hash);

  // On disk; not quick, and nothing where there is no folder.
  bool on_disk() const { return files_ != nullptr; }
  std::shared_ptr<const Image> fetch(const Hash &hash, uint64_t size);
  void save(const Hash &hash, const Image &image) const;

 private:
  struct Entry {
    Hash hash;
    std::shared_ptr<const Image> image;
    std::vector<std::string> names;
  };
  static constexpr size_t kMostNames = 128;
  static constexpr size_t kMostNameBytes = 1024;

  Entry *entry(const Hash &hash);  // with the lock

  const uint64_t limit_;
  std::unique_ptr<ModuleFiles> files_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  uint64_t total_ = 0;
};

}  // namespace outboard
