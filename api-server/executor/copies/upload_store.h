// Parts of uploads on disk, by the hash of their bytes, so that they need not be sent again: those
// of each tenant in a folder of its own, which no session of another opens.
//
// Lock: mutex_, innermost.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "images/hashed_files.h"

namespace outboard {

// The parts that are kept of one tenant.
using KeptUploads = std::shared_ptr<const HashedFiles>;

class UploadStore {
 public:
  // Opens the store in a folder, with at most `limit` bytes of each tenant. Null, with a line in
  // the log, when the folder cannot be used.
  static std::unique_ptr<UploadStore> open(const std::string &folder, uint64_t limit);
  ~UploadStore();
  UploadStore(const UploadStore &) = delete;
  UploadStore &operator=(const UploadStore &) = delete;

  // Returns what is kept of a tenant; null, with a line in the log, when nothing can be.
  KeptUploads of(const std::string &tenant) const;
  // Takes a copy of the bytes of one part, which a thread of the store hashes and writes later.
  // Where that thread is behind, the part is not kept: whoever uploads does not wait for a disk.
  void keep(KeptUploads where, std::span<const uint8_t> bytes);

 private:
  struct Part {
    KeptUploads where;
    std::vector<uint8_t> bytes;
  };
  // Bytes, with what it takes to wait for each; what is smaller is sent again sooner than kept.
  static constexpr uint64_t kMostWaiting = 128 << 20;
  static constexpr uint64_t kOfEach = 512;
  static constexpr size_t kLeast = 4096;

  explicit UploadStore(std::unique_ptr<HashedFiles> folder) : folder_(std::move(folder)) {}
  void write_parts();

  const std::unique_ptr<HashedFiles> folder_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Part> waiting_;
  uint64_t waiting_bytes_ = 0;
  bool over_ = false;
  std::thread writer_;  // from the first part on
};

}  // namespace outboard
