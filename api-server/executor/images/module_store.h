// Images by the hash of their bytes. They stay in the process for later sessions, and on disk
// where the server has a folder for them. The least recently used ones are dropped first.
//
// Tenants share the bytes, but are not told what others have: a tenant finds an image by its hash
// only if it has had the bytes itself. Otherwise whoever asks would learn what others have loaded,
// and knowing a hash would be as good as having the bytes.
//
// Any thread. Lock: mutex_, innermost.
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
  // Notes that these bytes have come. False when what has come lies in more fragments than anybody
  // has reason to send.
  bool arrived(uint64_t offset, uint64_t length);
  // Whether all bytes have come.
  bool complete() const;
  // From the start of each part that has come to its end.
  const std::map<uint64_t, uint64_t> &present() const { return present_; }

 private:
  std::shared_ptr<Image> image_;
  std::map<uint64_t, uint64_t> present_;  // from each fragment's start to its end
};

class ModuleStore {
 public:
  explicit ModuleStore(uint64_t limit = 1 << 30) : limit_(limit) {}

  // Sets how many bytes stay in the process. To be called before any session.
  void keep_within(uint64_t limit) { limit_ = limit; }
  // Sets where images are kept on disk. To be called before any session.
  void use(std::unique_ptr<ModuleFiles> files) { files_ = std::move(files); }

  // Returns an image that is in the process. Null when it is not, or the tenant has not had it.
  std::shared_ptr<const Image> find(const Hash &hash, uint64_t size, const std::string &tenant);
  // Keeps an image in the process. Its hash has been verified, and the tenant has sent the image or
  // got it from us.
  void keep(const Hash &hash, std::shared_ptr<const Image> image, const std::string &tenant);

  // Notes the name of a variable that a program of the tenant has looked up in an image: it will
  // ask for it again. There are bounds for how many names are kept and how long they are.
  void learn(const Hash &hash, const std::string &tenant, const std::string &name);
  // Returns the names that were noted.
  std::vector<std::string> names(const Hash &hash, const std::string &tenant);

  // Whether there is a folder on disk.
  bool on_disk() const { return files_ != nullptr; }
  // Reads an image from disk, which takes time. Null when it is not there, or the tenant has not
  // had it.
  std::shared_ptr<const Image> fetch(const Hash &hash, uint64_t size, const std::string &tenant);
  // Writes an image to disk, if there is a folder. Its hash has been verified.
  void save(const Hash &hash, const Image &image, const std::string &tenant) const;

 private:
  struct Entry {
    Hash hash;
    std::shared_ptr<const Image> image;
    // The names that each tenant which has had it has looked up.
    std::map<std::string, std::vector<std::string>> names;
    uint64_t bytes = 0;  // for how many it counts
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
