// Images by the SHA-256 of their bytes. They stay in the process for later sessions, the least
// recently used ones go first; and on disk, where the server has a folder for them.
//
// What lies there is shared, that it does is not told to everybody: only a tenant that has had the
// bytes itself finds them by their hash. Else a question would tell what others have loaded, and a
// hash would be as good as the bytes.
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

#include "images/image_bytes.h"
#include "images/module_files.h"

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
  std::shared_ptr<Image> image_;
  std::map<uint64_t, uint64_t> present_;  // start to end, apart from each other
};

class ModuleStore {
 public:
  explicit ModuleStore(uint64_t limit = 1 << 30) : limit_(limit) {}

  // Before any session:
  void keep_within(uint64_t limit) { limit_ = limit; }
  void use(std::unique_ptr<ModuleFiles> files) { files_ = std::move(files); }

  // Of the process; quick. Null also where the tenant has not had it.
  std::shared_ptr<const Image> find(const Hash &hash, uint64_t size, const std::string &tenant);
  // The image's hash has been verified, and the tenant has sent it, or has it from us.
  void keep(const Hash &hash, std::shared_ptr<const Image> image, const std::string &tenant);

  // Names of variables that programs of a tenant have looked up in an image: what they asked for
  // once, they ask for again. Not so many, nor so long, that they matter.
  void learn(const Hash &hash, const std::string &tenant, const std::string &name);
  std::vector<std::string> names(const Hash &hash, const std::string &tenant);

  // On disk; not quick, and nothing where there is no folder.
  bool on_disk() const { return files_ != nullptr; }
  std::shared_ptr<const Image> fetch(const Hash &hash, uint64_t size, const std::string &tenant);
  void save(const Hash &hash, const Image &image, const std::string &tenant) const;

 private:
  struct Entry {
    Hash hash;
    std::shared_ptr<const Image> image;
    // Of tenants that have had it, what they looked up.
    std::map<std::string, std::vector<std::string>> names;
    uint64_t bytes = 0;  // that it counts for
  };
  // What an image, a tenant and a name cost beside their bytes.
  static constexpr uint64_t kOfEach = 256;
  static constexpr size_t kMostNames = 128;
  static constexpr size_t kMostNameBytes = 1024;
  // Tenants that an image is remembered to have been had by; others send it again.
  static constexpr size_t kMostTenants = 256;

  // With the lock:
  Entry *entry(const Hash &hash);
  void count(Entry *entry, uint64_t bytes);
  void trim();

  uint64_t limit_;
  std::unique_ptr<ModuleFiles> files_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  uint64_t total_ = 0;
};

}  // namespace outboard
