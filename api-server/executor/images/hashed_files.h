// Files in a folder, each named by the hash of what is in it: they outlive this process, and the
// processes of all slots share them. Whatever lies there is believed only after its bytes have been
// hashed. Other files are left alone; what is called HASH.names belongs to HASH and goes with it.
//
// Any thread.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "images/image_bytes.h"

namespace outboard {

// Closes it at the end.
struct File {
  const int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

// What may lie there, and how it is called in the log.
struct FileKind {
  const char *one;   // "a module"
  const char *many;  // "modules"
  Hash (*hash)(std::span<const uint8_t> bytes);
};

class HashedFiles {
 public:
  // At most `limit` bytes of the disk, with what each file costs it. Null, with a line in the log,
  // when the folder is not this user's alone.
  static std::unique_ptr<HashedFiles> open(const std::string &folder, const FileKind &kind,
                                           uint64_t limit);
  // The same for a folder in this one, made if need be. It is looked through each time that one of
  // `looks` parts of the limit has been written: so much more each process may make of it.
  std::unique_ptr<HashedFiles> inside(const std::string &name, uint64_t looks) const;
  ~HashedFiles();
  HashedFiles(const HashedFiles &) = delete;
  HashedFiles &operator=(const HashedFiles &) = delete;

  // Reads what is there whole. `room` is asked for memory once it is known that there is such a
  // file; null: there is none.
  bool read(const Hash &hash, uint64_t size, const std::function<uint8_t *()> &room) const;
  // Of bytes whose hash has been verified; what was not used for longest goes when it is too much.
  // A disk that is full is no harm to the session.
  void write(const Hash &hash, std::span<const uint8_t> bytes) const;
  bool has(const Hash &hash, uint64_t size) const;

  // HASH.names, or an fd of -1.
  File open_names(const Hash &hash, int flags) const;

 private:
  HashedFiles(int folder, const FileKind &kind, uint64_t limit, uint64_t slack)
      : folder_(folder), kind_(kind), limit_(limit), slack_(slack) {}
  static std::unique_ptr<HashedFiles> take(int fd, const std::string &folder, const FileKind &kind,
                                           uint64_t limit, uint64_t slack);
  void trim() const;

  const int folder_;
  const FileKind kind_;
  const uint64_t limit_;
  const uint64_t slack_;
  mutable std::atomic<uint64_t> written_{0};  // since the last look
};

// In hexadecimal digits.
std::string name_of(const Hash &hash);
bool write_all(int fd, std::span<const uint8_t> bytes);
// Whether it is a plain file of this user.
bool is_own_file(int fd, uint64_t *size);

}  // namespace outboard
