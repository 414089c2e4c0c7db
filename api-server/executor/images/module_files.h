// Images on disk, by their hash (hashed_files.h), each with what is known of it beside it.
//
// No state but a folder: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "images/hashed_files.h"

namespace outboard {

class ModuleFiles {
 public:
  // Null, with a line in the log, when the folder is not this user's alone.
  static std::unique_ptr<ModuleFiles> open(const std::string &folder, uint64_t limit);

  // Null when it is not there whole.
  std::shared_ptr<Image> read(const Hash &hash, uint64_t size) const;
  // Keeps an image whose hash has been verified; what was not used for longest goes when it is too
  // much. A disk that is full is no harm to the session.
  void write(const Hash &hash, const Image &image) const;

  // Which tenants have had an image, and names of variables that they looked up in it: in a file
  // beside it. Names are questions, not answers: whoever reads them asks the driver, so nothing has
  // to be believed. False: the tenant has not had it, as far as is known.
  bool read_names(const Hash &hash, const std::string &tenant,
                  std::vector<std::string> *names) const;
  void add_tenant(const Hash &hash, const std::string &tenant) const;
  void add_name(const Hash &hash, const std::string &tenant, const std::string &name) const;

 private:
  void add_line(const Hash &hash, const std::string &line, uint64_t most) const;
  explicit ModuleFiles(std::unique_ptr<HashedFiles> files) : files_(std::move(files)) {}

  const std::unique_ptr<HashedFiles> files_;
};

}  // namespace outboard
