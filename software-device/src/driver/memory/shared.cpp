#include "memory/shared.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <string>

#include "abi_descriptor.h"

namespace softdev::driver {
namespace {

constexpr uint64_t kMagic = 0x73686172652d3031;  // changes with the layout of what is shared
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr uint64_t kMostExtents = 1 << 20;
constexpr uint64_t kMostSize = uint64_t{1} << 40;
constexpr char kName[] = "software-device-shared-";

// How a Description lies in its file; the extents come behind it.
struct Header {
  uint64_t magic, id;
  CUuuid device;
  uint64_t offset, size, extents;
};

uint64_t next_id() {
  // Differs between processes by their numbers and starts, which share names carry besides.
  static std::atomic<uint64_t> next{1};
  return next++;
}

bool write_all(int file, const void *data, size_t size) {
  return write(file, data, size) == static_cast<ssize_t>(size);
}

bool has_seals(int file, int wanted) {
  int seals = fcntl(file, F_GET_SEALS);
  return seals >= 0 && (seals & wanted) == wanted;
}

std::unique_ptr<File> open_in(int32_t process, int32_t number, int flags) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", process, number);
  return std::make_unique<File>(descriptor_above(open(path, flags | O_CLOEXEC | O_NONBLOCK)));
}

bool read_description(const File &descriptor, uint64_t id, Description *out) {
  Header header;
  if (!has_seals(descriptor.number(), F_SEAL_WRITE) ||
      pread(descriptor.number(), &header, sizeof header, 0) != sizeof header)
    return false;
  if (header.magic != kMagic || header.id != id || header.extents > kMostExtents ||
      header.size > kMostSize || header.offset > kMostSize)
    return false;
  out->device = header.device;
  out->offset = header.offset;
  out->size = header.size;
  out->extents.resize(header.extents);
  auto bytes = static_cast<ssize_t>(header.extents * sizeof(Extent));
  return pread(descriptor.number(), out->extents.data(), static_cast<size_t>(bytes),
               sizeof header) == bytes;
}

// Whether the file is one of memory that has all of the extents, and they hold what they should.
bool covers(const File &file, const Description &description) {
  struct stat about;
  if (!has_seals(file.number(), F_SEAL_SHRINK) || fstat(file.number(), &about) != 0) return false;
  auto room = static_cast<uint64_t>(about.st_size);
  uint64_t total = 0;
  for (const Extent &extent : description.extents) {
    if (extent.offset > room || extent.size > room - extent.offset || extent.size == 0 ||
        (extent.offset | extent.size) % 4096)
      return false;
    total += extent.size;
    if (total > kMostSize) return false;
  }
  return description.offset <= total && description.size <= total - description.offset;
}

}  // namespace

File::~File() {
  if (number_ >= 0) close(number_);
}

uint64_t process_start(int32_t process) {
  char path[32], text[1024];
  snprintf(path, sizeof path, "/proc/%d/stat", process);
  File file(descriptor_above(open(path, O_RDONLY | O_CLOEXEC)));
  ssize_t length = file.valid() ? read(file.number(), text, sizeof text - 1) : -1;
  if (length <= 0) return 0;
  text[length] = 0;
  // The name of the program may contain anything; the state comes behind its last parenthesis.
  const char *at = strrchr(text, ')');
  if (!at || at[1] == 0 || at[2] == 'Z') return 0;  // a zombie has no files any more
  unsigned long long start = 0;
  if (sscanf(at + 2,
             "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
             &start) != 1)
    return 0;
  return start;
}

bool process_lives(int32_t process, uint64_t started) { return process_start(process) == started; }

std::shared_ptr<Share> Share::offer(SharedKind kind, int file, const Description &description,
                                    uint64_t pool) {
  auto descriptor = std::make_unique<File>(descriptor_above(
      memfd_create("software-device-description", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!descriptor->valid()) return nullptr;
  Header header = {kMagic,
                   next_id(),
                   description.device,
                   description.offset,
                   description.size,
                   description.extents.size()};
  if (!write_all(descriptor->number(), &header, sizeof header) ||
      !write_all(descriptor->number(), description.extents.data(),
                 description.extents.size() * sizeof(Extent)) ||
      fcntl(descriptor->number(), F_ADD_SEALS, kSeals | F_SEAL_WRITE) != 0)
    return nullptr;
  auto share = std::make_shared<Share>();
  share->name_ = {.magic = kMagic,
                  .kind = kind,
                  .process = getpid(),
                  .process_started = process_start(getpid()),
                  .descriptor = descriptor->number(),
                  .file = file,
                  .id = header.id,
                  .pool = pool,
                  .unused = {}};
  share->descriptor_ = std::move(descriptor);
  return share;
}

Opened open_shared(const ShareName &name, SharedKind kind, Description *description,
                   std::shared_ptr<File> *file) {
  if (name.magic != kMagic || name.kind != kind || name.process <= 0 || name.descriptor < 0 ||
      name.file < 0)
    return Opened::kForeign;
  if (!process_lives(name.process, name.process_started)) return Opened::kGone;
  if (name.process == getpid()) return Opened::kOwn;
  auto descriptor = open_in(name.process, name.descriptor, O_RDONLY);
  std::shared_ptr<File> opened = open_in(name.process, name.file, O_RDWR);
  if (!descriptor->valid() || !opened->valid() ||
      !read_description(*descriptor, name.id, description) || !covers(*opened, *description))
    return Opened::kGone;
  // While its description was there, its descriptors were what the share name says.
  Description again;
  auto still = open_in(name.process, name.descriptor, O_RDONLY);
  if (!still->valid() || !read_description(*still, name.id, &again)) return Opened::kGone;
  *file = std::move(opened);
  return Opened::kOk;
}

std::shared_ptr<File> create_shared_file(uint64_t size, const CUuuid &device) {
  std::string name = kName;
  for (char byte : device.bytes) {
    char text[3];
    snprintf(text, sizeof text, "%02x", static_cast<unsigned char>(byte));
    name += text;
  }
  auto file = std::make_shared<File>(
      descriptor_above(memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!file->valid() || ftruncate(file->number(), static_cast<off_t>(size)) != 0 ||
      fcntl(file->number(), F_ADD_SEALS, kSeals) != 0)
    return nullptr;
  return file;
}

std::shared_ptr<File> adopt_shared_file(int number, uint64_t *size, CUuuid *device) {
  auto file = std::make_shared<File>(fcntl(number, F_DUPFD_CLOEXEC, ABI_DESCRIPTOR_LEAST));
  struct stat about;
  if (!file->valid() || !has_seals(file->number(), kSeals) || fstat(file->number(), &about) != 0 ||
      about.st_size <= 0)
    return nullptr;
  char path[64], target[256];
  snprintf(path, sizeof path, "/proc/self/fd/%d", file->number());
  ssize_t length = readlink(path, target, sizeof target - 1);
  if (length <= 0) return nullptr;
  target[length] = 0;
  const char *name = strstr(target, kName);
  if (!name || strlen(name) < sizeof kName - 1 + 2 * sizeof device->bytes) return nullptr;
  name += sizeof kName - 1;
  for (char &byte : device->bytes) {
    unsigned value;
    if (sscanf(name, "%2x", &value) != 1) return nullptr;
    byte = static_cast<char>(value);
    name += 2;
  }
  *size = static_cast<uint64_t>(about.st_size);
  return *size % kLeastGranule == 0 && *size <= kMostSize ? file : nullptr;
}

std::shared_ptr<File> create_note(const void *data, size_t size) {
  auto file = std::make_shared<File>(
      descriptor_above(memfd_create("software-device-note", MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  if (!file->valid() || !write_all(file->number(), data, size) ||
      fcntl(file->number(), F_ADD_SEALS, kSeals | F_SEAL_WRITE) != 0)
    return nullptr;
  return file;
}

bool read_note(int number, void *data, size_t size) {
  struct stat about;
  return has_seals(number, F_SEAL_WRITE) && fstat(number, &about) == 0 &&
         about.st_size == static_cast<off_t>(size) &&
         pread(number, data, size, 0) == static_cast<ssize_t>(size);
}

}  // namespace softdev::driver
