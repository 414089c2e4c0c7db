#include "memory/granules.h"

#include <sys/mman.h>

#include <atomic>

namespace softdev::driver {

Granules::Granules(uint64_t base, uint64_t size) : count_((size + kGranule - 1) >> kGranuleShift) {
  void *at = mmap(nullptr, count_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return;
  flags_ = static_cast<uint8_t *>(at);
  window_ = {base, size, flags_};
}

Granules::~Granules() {
  if (flags_) munmap(flags_, count_);
}

void Granules::set(uint64_t address, uint64_t size, uint8_t flags) {
  uint64_t first = (address - window_.base) >> kGranuleShift;
  uint64_t last = (address + size - 1 - window_.base) >> kGranuleShift;
  for (uint64_t i = first; i <= last; i++)
    std::atomic_ref(flags_[i]).store(flags, std::memory_order_relaxed);
}

uint8_t Granules::get(uint64_t address) const {
  return std::atomic_ref(flags_[(address - window_.base) >> kGranuleShift])
      .load(std::memory_order_relaxed);
}

}  // namespace softdev::driver
