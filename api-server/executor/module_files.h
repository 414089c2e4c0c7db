// Images on disk, by their hash: they outlive this process, and the processes of all slots share
// them. Whatever lies there is believed only after its bytes have been hashed. Other files are left
// alone.
//
// No state but a folder: any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "image_bytes.h"

namespace outboard {

class ModuleFiles {
 public:
  // Null, with a line in the log, when the folder is not this user's alone.
  static std::unique_ptr<ModuleFiles> open(const std::string &folder, uint64_t limit);
  ~ModuleFiles();
  ModuleFiles(const ModuleFiles &) = delete;
  ModuleFiles &operator=(const ModuleFiles &) = delete;

  // Null when it is not there whole.
  std::shared_ptr<Image> read(const Hash &hash, uint64_t size) const;
  // Keeps an image whose hash has been verified; what was not used for longest goes when it is too
  // much. A disk that is full is no harm to the session.
  void write(const Hash &hash, const Image &image) const;

  // Names of variables in an image, beside it. They are questions, not answers: whoever reads them
  // asks the driver, so nothing has to be believed.
  std::vector<std::string> read_names(const Hash &hash) const;
  void add_name(const Hash &hash, const std::string &name) const;

 private:
  ModuleFiles(int folder, uint64_t limit) : folder_(folder), limit_(limit) {}
  void trim() const;

  const int folder_;
  const uint64_t limit_;
};

}  // namespace outboard
