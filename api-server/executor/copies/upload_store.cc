#include "copies/upload_store.h"

#include <pthread.h>

#include <exception>

namespace outboard {

namespace {

constexpr FileKind kParts{"a part of an upload", "uploads", blake2b};
// A folder is looked through each time that this part of the limit has been written.
constexpr uint64_t kLooks = 32;
constexpr size_t kMostNameBytes = 128;

// Never a path, and never that of another tenant.
std::string folder_of(const std::string &tenant) {
  if (tenant.empty()) return "everybody";
  constexpr char kPlain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  if (tenant.size() <= kMostNameBytes && tenant.find_first_not_of(kPlain) == std::string::npos) {
    return "tenant-" + tenant;
  }
  return "hash-" +
         name_of(blake2b({reinterpret_cast<const uint8_t *>(tenant.data()), tenant.size()}));
}

}  // namespace

std::unique_ptr<UploadStore> UploadStore::open(const std::string &folder, uint64_t limit) {
  std::unique_ptr<HashedFiles> files = HashedFiles::open(folder, kParts, limit);
  return files ? std::unique_ptr<UploadStore>(new UploadStore(std::move(files))) : nullptr;
}

// What waits is not written: an end that takes a disk's time helps nobody.
UploadStore::~UploadStore() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
    waiting_.clear();
  }
  changed_.notify_one();
  if (writer_.joinable()) writer_.join();
}

KeptUploads UploadStore::of(const std::string &tenant) const {
  return folder_->inside(folder_of(tenant), kLooks);
}

void UploadStore::keep(KeptUploads where, std::span<const uint8_t> bytes) {
  std::lock_guard lock(mutex_);
  if (bytes.size() < kLeast || waiting_bytes_ + bytes.size() + kOfEach > kMostWaiting) return;
  try {
    if (!writer_.joinable()) writer_ = std::thread([this] { write_parts(); });
    waiting_.push_back({std::move(where), {bytes.begin(), bytes.end()}});
  } catch (const std::exception &) {
    return;  // no memory, or no thread: it is sent again
  }
  waiting_bytes_ += bytes.size() + kOfEach;
  changed_.notify_one();
}

void UploadStore::write_parts() {
  pthread_setname_np(pthread_self(), "outboard-keeper");
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return over_ || !waiting_.empty(); });
    if (over_) return;
    Part part = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    const Hash hash = blake2b(part.bytes);
    if (!part.where->has(hash, part.bytes.size())) part.where->write(hash, part.bytes);
    const uint64_t size = part.bytes.size() + kOfEach;
    part = {};
    lock.lock();
    waiting_bytes_ -= size;
  }
}

}  // namespace outboard
