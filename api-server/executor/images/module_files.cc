#include "images/module_files.h"

#include <fcntl.h>

namespace outboard {

namespace {

constexpr size_t kMostBytes = 64 << 10;
constexpr FileKind kModules{"a module", "modules", blake2b};

// What a tenant's lines begin with: of one length, whatever tenants are called.
std::string line_of(const std::string &tenant) {
  return name_of(blake2b({reinterpret_cast<const uint8_t *>(tenant.data()), tenant.size()}));
}

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

bool ModuleFiles::read_names(const Hash &hash, const std::string &tenant,
                             std::vector<std::string> *names) const {
  const File file = files_->open_names(hash, O_RDONLY);
  uint64_t size;
  if (!is_own_file(file.fd, &size)) return false;
  std::string text(kMostBytes, '\0');
  const ssize_t got = ::read(file.fd, text.data(), text.size());
  text.resize(got > 0 ? static_cast<size_t>(got) : 0);
  const std::string own = line_of(tenant);
  bool had = false;
  for (size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
    if (text.compare(at, own.size(), own) != 0) continue;
    had = true;
    const size_t name = at + own.size() + 1;
    if (name < end) names->push_back(text.substr(name, end - name));
  }
  return had;
}

void ModuleFiles::add_line(const Hash &hash, const std::string &line, uint64_t most) const {
  const File file = files_->open_names(hash, O_WRONLY | O_APPEND | O_CREAT);
  uint64_t size;
  if (!is_own_file(file.fd, &size) || size + line.size() >= most) return;
  write_all(file.fd, {reinterpret_cast<const uint8_t *>(line.data()), line.size()});
}

void ModuleFiles::add_tenant(const Hash &hash, const std::string &tenant) const {
  std::vector<std::string> names;
  if (!read_names(hash, tenant, &names)) add_line(hash, line_of(tenant) + "\n", kMostBytes);
}

// Half of the file at most, so that tenants to come have their place.
void ModuleFiles::add_name(const Hash &hash, const std::string &tenant,
                           const std::string &name) const {
  if (name.find('\n') != std::string::npos) return;
  add_line(hash, line_of(tenant) + " " + name + "\n", kMostBytes / 2);
}

}  // namespace outboard
