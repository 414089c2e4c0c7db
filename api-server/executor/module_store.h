// Images of modules by the SHA-256 of their bytes. They stay in the process for later sessions,
// the least recently used ones go first.
//
// Lock: mutex_, innermost.
#pragma once

#include <array>
#include <cstdint>
#include <cstdlib>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <span>

namespace outboard {

// The digest as the wire has it: four little-endian words.
using Hash = std::array<uint64_t, 4>;

Hash sha256(std::span<const uint8_t> bytes);

// Bytes of an image; eight zeros follow them, so that a text at the end is terminated.
class Image {
 public:
  // Null when there is no memory for it.
  static std::shared_ptr<Image> make(uint64_t size);
  uint8_t *data() { return bytes_.get(); }
  const uint8_t *data() const { return bytes_.get(); }
  uint64_t size() const { return size_; }

 private:
  struct Free {
    void operator()(uint8_t *p) const { free(p); }
  };
  std::unique_ptr<uint8_t, Free> bytes_;
  uint64_t size_ = 0;
};

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

  std::shared_ptr<const Image> find(const Hash &hash, uint64_t size);
  // The image's hash has been verified.
  void keep(const Hash &hash, std::shared_ptr<const Image> image);

 private:
  struct Entry {
    Hash hash;
    std::shared_ptr<const Image> image;
  };

  const uint64_t limit_;
  std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  uint64_t total_ = 0;
};

}  // namespace outboard
