// Files in a folder, each named by the hash of what is in it. They outlive this process, and the
// processes of all slots share them. A file is believed only after its bytes have been hashed.
// HASH.names belongs to the file HASH and is removed with it; all other files are left alone.
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

// A descriptor, which is closed at the end; -1 when there is no file.
struct File {
  const int fd;
  ~File() {
    if (fd >= 0) close(fd);
  }
};

// What the files are of.
struct FileKind {
  const char *one;   // how the log calls one of them, such as "a module"
  const char *many;  // and several, such as "modules"
  Hash (*hash)(std::span<const uint8_t> bytes);
};

class HashedFiles {
 public:
  // Opens a folder, which exists, for at most `limit` bytes of the disk; what a file costs the disk
  // beside its bytes counts, too. Null, with a line in the log, when the folder
  // cannot be used or is not this user's alone.
  static std::unique_ptr<HashedFiles> open(const std::string &folder, const FileKind &kind,
                                           uint64_t limit);
  // Does the same for a folder in this one, which is made if need be. A process looks whether it
  // has become too large each time that it has written a `looks`-th part of the limit, so each may
  // exceed it by that much.
  std::unique_ptr<HashedFiles> inside(const std::string &name, uint64_t looks) const;
  ~HashedFiles();
  HashedFiles(const HashedFiles &) = delete;
  HashedFiles &operator=(const HashedFiles &) = delete;

  // Reads a file of `size` bytes into the memory that `room` returns. That is called once it is
  // known that there is such a file, and returns null when there is no memory. False when there is
  // no such file, or its bytes do not have the hash.
  bool read(const Hash &hash, uint64_t size, const std::function<uint8_t *()> &room) const;
  // Writes a file of bytes whose hash has been verified, and removes those that were not used for
  // longest when they are too much. Where the disk is full, nothing is kept and nobody is told.
  void write(const Hash &hash, std::span<const uint8_t> bytes) const;
  // Whether there is a file of that name and size.
  bool has(const Hash &hash, uint64_t size) const;

  // Opens HASH.names with flags of open(2); fd is -1 when that fails.
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

// Returns the hash in hexadecimal digits.
std::string name_of(const Hash &hash);
// Writes all of the bytes. False when that fails.
bool write_all(int fd, std::span<const uint8_t> bytes);
// Whether the descriptor is of a plain file of this user; *size has its bytes then.
bool is_own_file(int fd, uint64_t *size);

}  // namespace outboard
