// Images on disk, by their hash (hashed_files.h). A file beside each says which tenants have had
// it, and which variables they have looked up.
//
// Any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "images/hashed_files.h"

namespace outboard {

class ModuleFiles {
 public:
  // Opens a folder, with at most `limit` bytes of the disk. Null, with a line in the log, when it
  // cannot be used or is not this user's alone.
  static std::unique_ptr<ModuleFiles> open(const std::string &folder, uint64_t limit);

  // Reads an image. Null when it is not there whole, or there is no memory for it.
  std::shared_ptr<Image> read(const Hash &hash, uint64_t size) const;
  // Keeps an image whose hash has been verified, and removes those that were not used for longest
  // when they are too much. Where the disk is full, nothing is kept and nobody is told.
  void write(const Hash &hash, const Image &image) const;

  // Reads the names of variables that a tenant has looked up in an image. False when the tenant has
  // not had the image, as far as is known. The names need not be believed, as whoever reads them
  // asks the driver for each.
  bool read_names(const Hash &hash, const std::string &tenant,
                  std::vector<std::string> *names) const;
  // Notes that a tenant has had an image, or has looked up a name in it.
  void add_tenant(const Hash &hash, const std::string &tenant) const;
  void add_name(const Hash &hash, const std::string &tenant, const std::string &name) const;

 private:
  void add_line(const Hash &hash, const std::string &line, uint64_t most) const;
  explicit ModuleFiles(std::unique_ptr<HashedFiles> files) : files_(std::move(files)) {}

  const std::unique_ptr<HashedFiles> files_;
};

}  // namespace outboard
