// Memory that guest and server share, when both are on one machine: payload of large copies lies in
// its slots, and commands and answers on the socket say in which (docs/same-machine.md). It is made
// here, cannot shrink, and holds nothing but payload: nothing is ever decided by what is in it.
//
// A slot for uploads is the guest's to fill and to fill again; it is told which ones copies are
// still to be made of. A slot for downloads is the server's until it has been announced, then the
// guest's until it says that it has the bytes.
//
// Lock: mutex_; the driver is asked about events with it held.
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include "base/driver.h"
#include "copies/staging.h"
#include "wire.h"

namespace outboard {

class Region {
 public:
  static constexpr size_t kSlot = 256 << 10;
  static constexpr unsigned kUploads = 16;
  static constexpr unsigned kDownloads = 16;

  // Null: there is no memory or descriptor for it, or the driver cannot copy to and from it by
  // itself.
  static std::unique_ptr<Region> make(const Driver &driver);
  ~Region();
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

  // For the guest; once it has it, nobody needs it any more.
  int descriptor() const { return fd_; }
  void forget_descriptor();

  // ---- uploads

  // Null: there is no such slot, or it is not as large.
  const uint8_t *upload(uint64_t slot, uint64_t length) const;
  // A copy of it is queued on the stream.
  void uploading(uint64_t slot, CUstream stream);
  // The slots of `asked` that copies are still to be made of.
  uint64_t busy(uint64_t asked = UINT64_MAX);

  // ---- downloads

  // A free slot, or null.
  Chunk *try_take() { return take(std::chrono::milliseconds(0)); }
  // Waits for one.
  Chunk *take(std::chrono::milliseconds patience);
  bool owns(const Chunk *chunk) const { return chunk >= slots_ && chunk < slots_ + kSlots; }
  // It was not announced after all.
  void give(Chunk *chunk);
  // It is the guest's from now on. The number that the guest knows it by.
  uint32_t announce(Chunk *chunk);
  // The guest has the bytes. False: it was not given one of these.
  bool taken(uint64_t slots);

 private:
  static constexpr unsigned kSlots = kUploads + kDownloads;
  static constexpr size_t kBytes = kSlot * kSlots;
  static_assert(kUploads <= WIRE_REGION_SLOTS && kDownloads <= WIRE_REGION_SLOTS);

  explicit Region(const Driver &driver) : driver_(driver) {}
  bool open();
  unsigned number(const Chunk *chunk) const {
    return static_cast<unsigned>(chunk - slots_) - kUploads;
  }

  const Driver &driver_;
  int fd_ = -1;
  uint8_t *bytes_ = nullptr;
  bool registered_ = false;
  Chunk slots_[kSlots];

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t busy_ = 0;  // uploads
  uint64_t free_ = (uint64_t{1} << kDownloads) - 1;
  uint64_t announced_ = 0;
};

}  // namespace outboard
