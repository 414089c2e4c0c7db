#include "module_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <vector>

#include "log.h"

namespace outboard {

namespace {

constexpr size_t kNameLength = 2 * sizeof(Hash);
constexpr char kPartial[] = "partial-";
constexpr char kNames[] = ".names";
constexpr size_t kMostNameBytes = 32 << 10;
// A partial file that old was left behind by a process that ended in the middle.
constexpr time_t kPartialSeconds = 3600;

std::string name_of(const Hash &hash) {
  const auto *bytes = reinterpret_cast<const uint8_t *>(hash.data());
  std::string name;
  for (size_t i = 0; i < sizeof hash; i++) {
    constexpr char kDigits[] = "0123456789abcdef";
    name += kDigits[bytes[i] >> 4];
    name += kDigits[bytes[i] & 15];
  }
  return name;
}

bool is_name(const char *name) {
  return strlen(name) == kNameLength && strspn(name, "0123456789abcdef") == kNameLength;
}

void warn(const std::string &text) { log_line(LogLevel::kWarn, 0, text); }

// Closes it at the end.
struct File {
  const int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

bool write_all(int fd, const uint8_t *bytes, uint64_t size) {
  while (size > 0) {
    const ssize_t wrote = write(fd, bytes, size);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes += wrote;
    size -= static_cast<uint64_t>(wrote);
  }
  return true;
}

bool read_all(int fd, uint8_t *bytes, uint64_t size) {
  while (size > 0) {
    const ssize_t got = read(fd, bytes, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    bytes += got;
    size -= static_cast<uint64_t>(got);
  }
  return true;
}

bool is_ours(const struct stat &status) {
  return S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

}  // namespace

std::unique_ptr<ModuleFiles> ModuleFiles::open(const std::string &folder, uint64_t limit) {
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0) {
    warn("modules are not kept on disk: " + folder + ": " + strerror(errno));
    if (fd >= 0) close(fd);
    return nullptr;
  }
  if (status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
    warn("modules are not kept on disk: others may read or write " + folder);
    close(fd);
    return nullptr;
  }
  return std::unique_ptr<ModuleFiles>(new ModuleFiles(fd, limit));
}

ModuleFiles::~ModuleFiles() { close(folder_); }

std::shared_ptr<Image> ModuleFiles::read(const Hash &hash, uint64_t size) const {
  const std::string name = name_of(hash);
  const File file{openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  struct stat status;
  // A wrong size may be the guest's, who names it: the file stays.
  if (file.fd < 0 || fstat(file.fd, &status) != 0 || !is_ours(status) ||
      static_cast<uint64_t>(status.st_size) != size) {
    return nullptr;
  }
  std::shared_ptr<Image> image = Image::make(size);
  if (!image || !read_all(file.fd, image->data(), size)) return nullptr;
  if (sha256({image->data(), size}) != hash) {
    warn("a module on disk is damaged, and is sent again: " + name);
    unlinkat(folder_, name.c_str(), 0);
    return nullptr;
  }
  futimens(file.fd, nullptr);  // the time of last use
  return image;
}

void ModuleFiles::write(const Hash &hash, const Image &image) const {
  if (image.size() > limit_) return;
  static std::atomic<unsigned> count{0};
  const std::string partial =
      kPartial + std::to_string(getpid()) + "-" + std::to_string(count.fetch_add(1));
  bool whole = false;
  {
    const File file{openat(folder_, partial.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (file.fd < 0) return warn(std::string("a module is not kept on disk: ") + strerror(errno));
    whole = write_all(file.fd, image.data(), image.size());
  }
  // Readers see all of it or nothing. What a power cut leaves does not match its hash.
  if (whole && renameat(folder_, partial.c_str(), folder_, name_of(hash).c_str()) == 0) {
    return trim();
  }
  warn(std::string("a module is not kept on disk: ") + strerror(errno));
  unlinkat(folder_, partial.c_str(), 0);
}

std::vector<std::string> ModuleFiles::read_names(const Hash &hash) const {
  const std::string file_name = name_of(hash) + kNames;
  const File file{
      openat(folder_, file_name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  struct stat status;
  std::vector<std::string> names;
  if (file.fd < 0 || fstat(file.fd, &status) != 0 || !is_ours(status)) return names;
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
  const std::string file_name = name_of(hash) + kNames;
  const File file{openat(folder_, file_name.c_str(),
                         O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK,
                         0600)};
  struct stat status;
  if (file.fd < 0 || fstat(file.fd, &status) != 0 || !is_ours(status) ||
      static_cast<size_t>(status.st_size) + name.size() >= kMostNameBytes) {
    return;
  }
  const std::string line = name + "\n";
  write_all(file.fd, reinterpret_cast<const uint8_t *>(line.data()), line.size());
}

// Only what has a name as this class gives it is ever removed.
void ModuleFiles::trim() const {
  const int again = openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *listing = again < 0 ? nullptr : fdopendir(again);
  if (!listing) {
    if (again >= 0) close(again);
    return;
  }
  struct Found {
    std::string name;
    timespec used;
    uint64_t size;
  };
  std::vector<Found> found;
  std::vector<std::string> names;  // of images that have such a file
  uint64_t total = 0;
  // Another process that is at it sees what this one wrote, or will when it writes the next.
  const bool alone = flock(again, LOCK_EX | LOCK_NB) == 0;
  while (const dirent *entry = alone ? readdir(listing) : nullptr) {
    const std::string name = entry->d_name;
    if (name.size() == kNameLength + sizeof kNames - 1 && name.ends_with(kNames) &&
        is_name(name.substr(0, kNameLength).c_str())) {
      names.push_back(name.substr(0, kNameLength));
      continue;
    }
    const bool partial = strncmp(entry->d_name, kPartial, sizeof kPartial - 1) == 0;
    struct stat status;
    if ((!partial && !is_name(entry->d_name)) ||
        fstatat(folder_, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !is_ours(status)) {
      continue;
    }
    if (!partial) {
      const auto size = static_cast<uint64_t>(status.st_size);
      found.push_back({entry->d_name, status.st_mtim, size});
      total += size;
    } else if (time(nullptr) - status.st_mtim.tv_sec > kPartialSeconds) {
      unlinkat(folder_, entry->d_name, 0);
    }
  }
  if (total > limit_) {
    std::sort(found.begin(), found.end(), [](const Found &a, const Found &b) {
      return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec
                                            : a.used.tv_nsec < b.used.tv_nsec;
    });
    for (const Found &file : found) {
      if (total <= limit_) break;
      unlinkat(folder_, file.name.c_str(), 0);
      total -= file.size;
    }
  }
  for (const std::string &name : names) {
    if (faccessat(folder_, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
      unlinkat(folder_, (name + kNames).c_str(), 0);
    }
  }
  closedir(listing);  // and the lock ends
}

}  // namespace outboard
