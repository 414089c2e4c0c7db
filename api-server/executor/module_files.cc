#include "module_files.h"

#include <fcntl.h>

namespace outboard {

namespace {

constexpr size_t kMostNameBytes = 32 << 10;
constexpr FileKind kModules{"a module", "modules", sha256};

}  // namespace

std::unique_ptr<ModuleFiles> ModuleFiles::open(const std::string &folder, uint64_t limit) {
  std::unique_ptr<HashedFiles> files = HashedFiles::open(folder, kModules, limit);
  return files ? std::unique_ptr<ModuleFiles>(new ModuleFiles(std::move(files))) : nullptr;
}

std::shared_ptr<Image> ModuleFiles::read(const Hash &hash, uint64_t size) const {
  std::shared_ptr<Image> image;
  const bool there = files_->read(hash, size, [&] {
    image = Image::make(size);
    return image ? image->data() : nullptr;
  });
  return there ? image : nullptr;
}

void ModuleFiles::write(const Hash &hash, const Image &image) const {
  files_->write(hash, {image.data(), image.size()});
}

std::vector<std::string> ModuleFiles::read_names(const Hash &hash) const {
  const File file = files_->open_names(hash, O_RDONLY);
  uint64_t size;
  std::vector<std::string> names;
  if (!is_own_file(file.fd, &size)) return names;
  std::string text(kMostNameBytes, '\0');
  const ssize_t got = ::read(file.fd, text.data(), text.size());
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    if (end > at) names.push_back(text.substr(at, end - at));
  }
  return names;
}

void ModuleFiles::add_name(const Hash &hash, const std::string &name) const {
  if (name.find('\n') != std::string::npos) return;
  const File file = files_->open_names(hash, O_WRONLY | O_APPEND | O_CREAT);
  uint64_t size;
  if (!is_own_file(file.fd, &size) || size + name.size() >= kMostNameBytes) return;
  const std::string line = name + "\n";
  write_all(file.fd, {reinterpret_cast<const uint8_t *>(line.data()), line.size()});
}

}  // namespace outboard
