#include "memory/granules.h"

#include <sys/mman.h>

#include <atomic>

namespace softdev::driver {
namespace {

constexpr uint64_t kBytes = uint64_t{1} << kGranuleShift;
constexpr uint64_t kPage = 4096;
// Closing this many granules gives the pages of their flags back instead of writing them.
constexpr uint64_t kMany = 16 * kPage;

uint8_t with_extent(uint8_t flags, uint8_t extent) {
  return static_cast<uint8_t>(flags | extent << 2);
}

}  // namespace

Granules::Granules(uint64_t base, uint64_t size) {
  if (size > UINT64_MAX / 2 || base > UINT64_MAX / 2) return;
  uint64_t first = base / kBytes * kBytes, last = round_up(base + size, kBytes);
  bytes_ = round_up((last - first) >> kGranuleShift, kPage);
  void *at = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) return;
  flags_ = static_cast<uint8_t *>(at);
  window_ = {first, last - first, flags_};
}

Granules::~Granules() {
  if (flags_) munmap(flags_, bytes_);
}

void Granules::store(uint64_t first, uint64_t last, uint8_t flags) {
  if (flags == 0 && last - first >= kMany) {
    uint64_t from = round_up(first, kPage), to = last / kPage * kPage;
    if (madvise(flags_ + from, to - from, MADV_DONTNEED) == 0) {
      store(first, from, 0);
      store(to, last, 0);
      return;
    }
  }
  for (; first < last && first % 8; first++)
    std::atomic_ref(flags_[first]).store(flags, std::memory_order_relaxed);
  for (; last - first >= 8; first += 8)
    std::atomic_ref(*reinterpret_cast<uint64_t *>(flags_ + first))
        .store(flags * 0x0101010101010101u, std::memory_order_relaxed);
  for (; first < last; first++)
    std::atomic_ref(flags_[first]).store(flags, std::memory_order_relaxed);
}

void Granules::set(uint64_t address, uint64_t size, uint8_t flags) {
  if (size == 0) return;
  uint64_t begin = address - window_.base, end = begin + size;
  uint64_t first = begin >> kGranuleShift, last = (end - 1) >> kGranuleShift;
  store(first, last + 1, with_extent(flags, kWholeGranule));
  if (flags == 0) return;
  uint64_t tail = end - (last << kGranuleShift);
  if (tail != kBytes) {
    bool words = tail % 4 == 0 && tail / 4 < kAskSpace;
    store(last, last + 1, with_extent(flags, words ? static_cast<uint8_t>(tail / 4) : kAskSpace));
  }
  if (begin % kBytes) store(first, first + 1, with_extent(flags, kAskSpace));
}

void Granules::set_among_others(uint64_t address, uint64_t size, uint8_t flags) {
  set(address, size, flags);
  const uint64_t begin = address - window_.base, end = begin + size;
  const uint64_t first = begin >> kGranuleShift, last = (end - 1) >> kGranuleShift;
  if (begin % kBytes) store(first, first + 1, with_extent(flags, kAskSpace));
  if (end % kBytes) store(last, last + 1, with_extent(flags, kAskSpace));
}

uint8_t Granules::get(uint64_t address) const {
  return std::atomic_ref(flags_[(address - window_.base) >> kGranuleShift])
             .load(std::memory_order_relaxed) &
         (kReadable | kWritable);
}

}  // namespace softdev::driver
