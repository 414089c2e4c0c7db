// Memory that processes share. Each process has its devices for itself, in files in memory; what
// one shares is a part of such a file. How a process finds it:
//
// - by a file descriptor that it was sent (memory of cuMemCreate: a file of its own each);
// - by a share name (cuIpc*, pools), which names the process and a descriptor there that describes
// the
//   rest. It is opened through /proc, which allows that to processes of the same user.
//
// Share names and files come from anybody: nothing in them is followed before it was checked, and
// the files are sealed, so that they cannot become shorter under us.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "cuda_driver.h"
#include "memory/physical.h"

namespace softdev::driver {

// A file descriptor that is closed at the end.
class File {
 public:
  explicit File(int number = -1) : number_(number) {}
  ~File();
  File(const File &) = delete;
  File &operator=(const File &) = delete;
  int number() const { return number_; }
  bool valid() const { return number_ >= 0; }

 private:
  const int number_;
};

enum class SharedKind : uint32_t { kMemory, kEvent, kPool, kPoolMemory };

// 64 bytes, as CUDA's handles are.
struct ShareName {
  uint64_t magic;
  SharedKind kind;
  int32_t process;
  uint64_t process_started;  // tells a process from a later one of the same number
  int32_t descriptor;        // in that process: a sealed file with a Description
  int32_t file;              // in that process: what it is about
  uint64_t id;               // in both, so that a reused descriptor is noticed
  uint64_t pool;             // the pool that kPoolMemory is of
  uint64_t unused[2];
};
static_assert(sizeof(ShareName) == 64);

// What a share name is for.
struct Description {
  CUuuid device;
  uint64_t offset = 0;  // of the first byte in the first extent
  uint64_t size = 0;
  std::vector<Extent> extents;  // in the file
};

// Both ends of a sharing. The exporter keeps it as long as what is shared exists.
class Share {
 public:
  // Describes `file` to other processes. nullptr when the system has no descriptor left.
  static std::shared_ptr<Share> offer(SharedKind kind, int file, const Description &description,
                                      uint64_t pool = 0);
  const ShareName &name() const { return name_; }

 private:
  ShareName name_ = {};
  std::unique_ptr<File> descriptor_;
};

enum class Opened { kOk, kForeign, kOwn, kGone };
// kForeign: no share name of this kind; kOwn: of this very process; kGone: what it is for is not
// there any more.
Opened open_shared(const ShareName &name, SharedKind kind, Description *description,
                   std::shared_ptr<File> *file);

// A file of `size` zero bytes that can be shared. The device is written in its name.
std::shared_ptr<File> create_shared_file(uint64_t size, const CUuuid &device);
// A duplicate of what somebody sent us. nullptr when it was not made by the above.
std::shared_ptr<File> adopt_shared_file(int number, uint64_t *size, CUuuid *device);

// A few bytes in a sealed file, to be sent; and out of it again.
std::shared_ptr<File> create_note(const void *data, size_t size);
bool read_note(int number, void *data, size_t size);

// Whether the process still runs that had this number and start.
bool process_lives(int32_t process, uint64_t started);
uint64_t process_start(int32_t process);  // 0 when there is none

}  // namespace softdev::driver
