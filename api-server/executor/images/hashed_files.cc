#include "images/hashed_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <map>
#include <vector>

#include "base/log.h"

namespace outboard {

namespace {

constexpr size_t kNameLength = 2 * sizeof(Hash);
constexpr char kPartial[] = "partial-";
constexpr char kNames[] = ".names";
// A partial file that old was left behind by a process that ended in the middle.
constexpr time_t kPartialSeconds = 3600;

bool is_name(const char *name) {
  return strlen(name) == kNameLength && strspn(name, "0123456789abcdef") == kNameLength;
}

void warn(const std::string &text) { log_line(LogLevel::kWarn, 0, text); }

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

// What a file takes of the disk: its blocks, and one for its name and what the file system knows of
// it.
uint64_t cost_of(const struct stat &status) {
  constexpr uint64_t kOfEach = 4096;
  const auto blocks = static_cast<uint64_t>(status.st_blocks) * 512;
  return std::max(blocks, static_cast<uint64_t>(status.st_size)) + kOfEach;
}

bool is_ours(const struct stat &status) {
  return S_ISREG(status.st_mode) && status.st_uid == geteuid();
}

}  // namespace

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

bool write_all(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return true;
}

bool is_own_file(int fd, uint64_t *size) {
  struct stat status;
  if (fd < 0 || fstat(fd, &status) != 0 || !is_ours(status)) return false;
  *size = static_cast<uint64_t>(status.st_size);
  return true;
}

std::unique_ptr<HashedFiles> HashedFiles::open(const std::string &folder, const FileKind &kind,
                                               uint64_t limit) {
  return take(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), folder, kind,
              limit, 0);
}

std::unique_ptr<HashedFiles> HashedFiles::inside(const std::string &name, uint64_t looks) const {
  mkdirat(folder_, name.c_str(), 0700);  // where it is there already, it is looked at as well
  return take(openat(folder_, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), name,
              kind_, limit_, limit_ / looks);
}

std::unique_ptr<HashedFiles> HashedFiles::take(int fd, const std::string &folder,
                                               const FileKind &kind, uint64_t limit,
                                               uint64_t slack) {
  struct stat status;
  const std::string nowhere = std::string(kind.many) + " are not kept on disk: ";
  if (fd < 0 || fstat(fd, &status) != 0) {
    warn(nowhere + folder + ": " + strerror(errno));
    if (fd >= 0) close(fd);
    return nullptr;
  }
  if (status.st_uid != geteuid() || (status.st_mode & 077) != 0) {
    warn(nowhere + "others may read or write " + folder);
    close(fd);
    return nullptr;
  }
  return std::unique_ptr<HashedFiles>(new HashedFiles(fd, kind, limit, slack));
}

HashedFiles::~HashedFiles() { close(folder_); }

bool HashedFiles::has(const Hash &hash, uint64_t size) const {
  struct stat status;
  return fstatat(folder_, name_of(hash).c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         is_ours(status) && static_cast<uint64_t>(status.st_size) == size;
}

bool HashedFiles::read(const Hash &hash, uint64_t size,
                       const std::function<uint8_t *()> &room) const {
  const std::string name = name_of(hash);
  const File file{openat(folder_, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)};
  uint64_t there;
  // A wrong size may be the guest's, who names it: the file stays.
  if (!is_own_file(file.fd, &there) || there != size) return false;
  uint8_t *bytes = room();
  if (!bytes || !read_all(file.fd, bytes, size)) return false;
  if (kind_.hash({bytes, size}) != hash) {
    warn(std::string(kind_.one) + " on disk is damaged, and is sent again: " + name);
    unlinkat(folder_, name.c_str(), 0);
    return false;
  }
  futimens(file.fd, nullptr);  // the time of last use
  return true;
}

void HashedFiles::write(const Hash &hash, std::span<const uint8_t> bytes) const {
  if (bytes.size() > limit_) return;
  static std::atomic<unsigned> count{0};
  const std::string partial =
      kPartial + std::to_string(getpid()) + "-" + std::to_string(count.fetch_add(1));
  bool whole = false;
  uint64_t cost = bytes.size();
  {
    const File file{openat(folder_, partial.c_str(),
                           O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)};
    if (file.fd < 0)
      return warn(std::string(kind_.one) + " is not kept on disk: " + strerror(errno));
    whole = write_all(file.fd, bytes);
    struct stat status;
    if (fstat(file.fd, &status) == 0) cost = cost_of(status);
  }
  // Readers see all of it or nothing. What a power cut leaves does not match its hash.
  if (whole && renameat(folder_, partial.c_str(), folder_, name_of(hash).c_str()) == 0) {
    if (written_ += cost; written_ > slack_) trim();
    return;
  }
  warn(std::string(kind_.one) + " is not kept on disk: " + strerror(errno));
  unlinkat(folder_, partial.c_str(), 0);
}

File HashedFiles::open_names(const Hash &hash, int flags) const {
  const std::string name = name_of(hash) + kNames;
  return {openat(folder_, name.c_str(), flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600)};
}

// Only what has a name as this class gives it is ever removed. Two processes that are at it at once
// remove the same files: there is no lock, as one that was taken over could hold it for ever.
void HashedFiles::trim() const {
  written_ = 0;
  const int again = openat(folder_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR *listing = again < 0 ? nullptr : fdopendir(again);
  if (!listing) {
    if (again >= 0) close(again);
    return;
  }
  struct Found {
    std::string name;
    timespec used;
    uint64_t cost;
  };
  std::vector<Found> found;
  std::map<std::string, uint64_t> names;  // of images that have such a file, and what that costs
  uint64_t total = 0;
  while (const dirent *entry = readdir(listing)) {
    const std::string name = entry->d_name;
    if (name.size() == kNameLength + sizeof kNames - 1 && name.ends_with(kNames) &&
        is_name(name.substr(0, kNameLength).c_str())) {
      struct stat status;
      if (fstatat(folder_, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
      names[name.substr(0, kNameLength)] = cost_of(status);
      total += cost_of(status);
      continue;
    }
    const bool partial = strncmp(entry->d_name, kPartial, sizeof kPartial - 1) == 0;
    struct stat status;
    if ((!partial && !is_name(entry->d_name)) ||
        fstatat(folder_, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0 || !is_ours(status)) {
      continue;
    }
    if (!partial) {
      found.push_back({entry->d_name, status.st_mtim, cost_of(status)});
      total += found.back().cost;
    } else if (time(nullptr) - status.st_mtim.tv_sec > kPartialSeconds) {
      unlinkat(folder_, entry->d_name, 0);
    }
  }
  if (total > limit_) {
    // Below it, so that not every write finds it full.
    const uint64_t target = limit_ - slack_;
    std::sort(found.begin(), found.end(), [](const Found &a, const Found &b) {
      return a.used.tv_sec != b.used.tv_sec ? a.used.tv_sec < b.used.tv_sec
                                            : a.used.tv_nsec < b.used.tv_nsec;
    });
    for (const Found &file : found) {
      if (total <= target) break;
      unlinkat(folder_, file.name.c_str(), 0);
      total -= file.cost;
      if (const auto own = names.find(file.name); own != names.end()) total -= own->second;
    }
  }
  for (const auto &[name, cost] : names) {
    if (faccessat(folder_, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) != 0) {
      unlinkat(folder_, (name + kNames).c_str(), 0);
    }
  }
  closedir(listing);
}

}  // namespace outboard
