#include "memory/physical.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "abi_descriptor.h"
#include "core/log.h"

namespace softdev::driver {

PhysicalMemory::~PhysicalMemory() {
  if (file_ >= 0) close(file_);
}

uint64_t PhysicalMemory::used() const {
  std::lock_guard guard(mutex_);
  return used_;
}

bool PhysicalMemory::open_file() {
  if (file_ >= 0) return true;
  file_ = descriptor_above(memfd_create("software-device", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (file_ < 0) {
    log(Level::kError, "memfd_create failed: %m");
    return false;
  }
  if (ftruncate(file_, static_cast<off_t>(total_)) != 0) {
    log(Level::kError, "a memory file of %llu bytes is not possible: %m",
        static_cast<unsigned long long>(total_));
    close(file_);
    file_ = -1;
    return false;
  }
  // Nobody who shares it can make it shorter under the others.
  fcntl(file_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  return true;
}

bool PhysicalMemory::take(uint64_t size, std::vector<Extent> *extents) {
  std::lock_guard guard(mutex_);
  if (size > total_ - used_ || !open_file()) return false;
  used_ += size;
  if (auto offset = free_.take(size, size % kGranule ? kLeastGranule : kGranule)) {
    extents->push_back({*offset, size});
    return true;
  }
  while (size) {
    auto [offset, length] = *free_.largest();
    uint64_t part = std::min(length, size);
    free_.take_at(offset, part);
    extents->push_back({offset, part});
    size -= part;
  }
  return true;
}

void PhysicalMemory::give_back(const std::vector<Extent> &extents) {
  std::lock_guard guard(mutex_);
  for (const Extent &extent : extents) {
    if (!residue_ &&
        fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(extent.offset), static_cast<off_t>(extent.size)) != 0)
      log(Level::kError, "releasing memory failed: %m");
    free_.add(extent.offset, extent.size);
    used_ -= extent.size;
  }
}

bool PhysicalMemory::charge(uint64_t size) {
  std::lock_guard guard(mutex_);
  if (size > total_ - used_) return false;
  used_ += size;
  return true;
}

void PhysicalMemory::discharge(uint64_t size) {
  std::lock_guard guard(mutex_);
  used_ -= size;
}

bool PhysicalMemory::map(uint64_t address, const std::vector<Extent> &extents) const {
  return map_file(file_, address, extents);
}

bool map_file(int file, uint64_t address, const std::vector<Extent> &extents) {
  for (const Extent &extent : extents) {
    void *at = mmap(reinterpret_cast<void *>(address), extent.size, PROT_READ | PROT_WRITE,
                    MAP_SHARED | MAP_FIXED, file, static_cast<off_t>(extent.offset));
    if (at == MAP_FAILED) {
      log(Level::kError, "mapping %llu bytes failed: %m",
          static_cast<unsigned long long>(extent.size));
      return false;
    }
    // Where the system offers large pages for shared memory on request, they save most of the
    // cost of first touches; where it does not, this is refused and nothing is lost.
    madvise(at, extent.size, MADV_HUGEPAGE);
    address += extent.size;
  }
  return true;
}

uint64_t reserve_addresses(uint64_t size, uint64_t align, uint64_t at) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  if (at) {
    void *got =
        mmap(reinterpret_cast<void *>(at), size, PROT_NONE, flags | MAP_FIXED_NOREPLACE, -1, 0);
    if (got == MAP_FAILED) return 0;
    if (got == reinterpret_cast<void *>(at)) return at;
    munmap(got, size);  // a kernel that does not know the flag took it for a hint
    return 0;
  }
  if (size > UINT64_MAX - align) return 0;
  void *got = mmap(nullptr, size + align, PROT_NONE, flags, -1, 0);
  if (got == MAP_FAILED) return 0;
  uint64_t start = reinterpret_cast<uint64_t>(got), base = round_up(start, align);
  if (base > start) munmap(got, base - start);
  uint64_t tail = start + align - base;
  if (tail) munmap(reinterpret_cast<void *>(base + size), tail);
  return base;
}

uint64_t reserve_addresses_from(uint64_t from, uint64_t size, uint64_t align) {
  constexpr int kTries = 256;
  for (int i = 0; i < kTries; i++) {
    const uint64_t at = round_up(from, align);
    if (const uint64_t base = reserve_addresses(size, align, at)) return base;
    from = at + std::max(size, align);
  }
  return 0;
}

void release_addresses(uint64_t base, uint64_t size) {
  munmap(reinterpret_cast<void *>(base), size);
}

void unmap_to_reserved(uint64_t base, uint64_t size) {
  mmap(reinterpret_cast<void *>(base), size, PROT_NONE,
       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

}  // namespace softdev::driver
