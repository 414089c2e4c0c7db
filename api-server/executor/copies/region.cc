#include "copies/region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>

#include "base/sealed_memory.h"
#include "base/waiting.h"

namespace outboard {

std::unique_ptr<Region> Region::make(const Driver &driver, For whom) {
  std::unique_ptr<Region> region(new Region(driver, whom));
  return region->open() ? std::move(region) : nullptr;
}

std::unique_ptr<Region> Region::adopt(const Driver &driver, int descriptor, uint64_t announced) {
  std::unique_ptr<Region> region(new Region(driver, For::kGuest));
  region->fd_ = descriptor;
  if (!is_sealed_memory(descriptor, region->bytes_in_all_) || announced & ~region->free_ ||
      !region->map())
    return nullptr;
  region->announced_ = announced;
  region->free_ &= ~announced;
  return region;
}

bool Region::open() {
  fd_ = memfd_create("outboard-region", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  // All of it is there from the start: a page that cannot be had later would end the process.
  if (fd_ < 0 || fallocate(fd_, 0, 0, bytes_in_all_) < 0 ||
      fcntl(fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0) {
    return false;
  }
  return map();
}

bool Region::map() {
  void *mapped =
      mmap(nullptr, bytes_in_all_, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd_, 0);
  if (mapped == MAP_FAILED) return false;
  bytes_ = static_cast<uint8_t *>(mapped);
  // A driver would wait for copies of memory that it cannot pin, and the leader with it.
  registered_ = driver_.cuMemHostRegister_v2(bytes_, bytes_in_all_, 0) == CUDA_SUCCESS;
  if (!registered_) return false;
  for (unsigned i = 0; i < uploads_ + downloads_; i++) {
    slots_[i].data = bytes_ + i * slot_;
    if (driver_.cuEventCreate(&slots_[i].events[0], kWaitEvent) != CUDA_SUCCESS) {
      slots_[i].events[0] = nullptr;
      return false;
    }
  }
  return true;
}

Region::~Region() {
  for (Chunk &slot : slots_) {
    if (slot.events[0]) driver_.cuEventDestroy_v2(slot.events[0]);
  }
  if (registered_) driver_.cuMemHostUnregister(bytes_);
  if (bytes_) munmap(bytes_, bytes_in_all_);
  if (fd_ >= 0) close(fd_);
}

// ---- uploads -----------------------------------------------------------------------------------

const uint8_t *Region::upload(uint64_t slot, uint64_t length) const {
  return slot < uploads_ && length <= slot_ ? slots_[slot].data : nullptr;
}

void Region::uploading(uint64_t slot, CUstream stream) {
  if (driver_.cuEventRecord(slots_[slot].events[0], stream) != CUDA_SUCCESS) {
    driver_.cuStreamSynchronize(stream);
    return;
  }
  std::lock_guard lock(mutex_);
  busy_ |= uint64_t{1} << slot;
}

uint64_t Region::busy(uint64_t asked) {
  std::lock_guard lock(mutex_);
  for (uint64_t left = busy_ & asked; left; left &= left - 1) {
    const int slot = std::countr_zero(left);
    if (driver_.cuEventQuery(slots_[slot].events[0]) != CUDA_ERROR_NOT_READY) {
      busy_ &= ~(uint64_t{1} << slot);
    }
  }
  return busy_ & asked;
}

// ---- downloads ---------------------------------------------------------------------------------

Chunk *Region::take(std::chrono::milliseconds patience) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, patience, [this] { return free_ != 0; })) return nullptr;
  const int slot = std::countr_zero(free_);
  free_ &= free_ - 1;
  return &slots_[uploads_ + slot];
}

void Region::give(Chunk *chunk) {
  {
    std::lock_guard lock(mutex_);
    free_ |= uint64_t{1} << number(chunk);
  }
  changed_.notify_all();
}

uint32_t Region::announce(Chunk *chunk) {
  std::lock_guard lock(mutex_);
  announced_ |= uint64_t{1} << number(chunk);
  return number(chunk);
}

uint64_t Region::announced() {
  std::lock_guard lock(mutex_);
  return announced_;
}

bool Region::taken(uint64_t slots) {
  {
    std::lock_guard lock(mutex_);
    if (slots & ~announced_) return false;
    announced_ &= ~slots;
    free_ |= slots;
  }
  changed_.notify_all();
  return true;
}

}  // namespace outboard
