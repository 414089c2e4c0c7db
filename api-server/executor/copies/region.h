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

  // For a session that arrives from another process (docs/moving.md): nothing but uploads, and all
  // of its memory. As much is on its way as keeps both processes busy though each of them is now
  // and then kept from its processor.
  static constexpr size_t kMoveSlot = 512 << 10;
  static constexpr unsigned kMoveUploads = 32;

  enum class For { kGuest, kMove };
  // Returns null when there is no memory or descriptor for it, or when the driver cannot copy to
  // and from it by itself.
  static std::unique_ptr<Region> make(const Driver &driver, For whom);
  // A guest's, which another process has made and hands over with its session: its descriptor,
  // which is this one's then, and what `announced` has said there. Null where it is not what ours
  // are, besides.
  static std::unique_ptr<Region> adopt(const Driver &driver, int descriptor, uint64_t announced);
  ~Region();
  Region(const Region &) = delete;
  Region &operator=(const Region &) = delete;

  // Bytes of a slot, and how many there are.
  size_t slot() const { return slot_; }
  unsigned uploads() const { return uploads_; }
  unsigned downloads() const { return downloads_; }

  // Returns the descriptor that the guest is sent, and another process that takes the session over.
  int descriptor() const { return fd_; }

  // ---- uploads

  // Returns the bytes of a slot for uploads; null when there is no such slot, or `length` is more
  // than it has.
  const uint8_t *upload(uint64_t slot, uint64_t length) const;
  // Says that a copy out of the slot, which exists, is queued on the stream.
  void uploading(uint64_t slot, CUstream stream);
  // Returns those of the slots in `asked`, a bit each, that copies are still to be made of.
  uint64_t busy(uint64_t asked = UINT64_MAX);

  // ---- downloads

  // All of these may be called by any thread.
  //
  // Returns a free slot for a download, or null.
  Chunk *try_take() { return take(std::chrono::milliseconds(0)); }
  // Waits for one for so long; null then.
  Chunk *take(std::chrono::milliseconds patience);
  // Whether a chunk is a slot of this region, and not one of Staging.
  bool owns(const Chunk *chunk) const { return chunk >= slots_ && chunk < slots_ + kSlots; }
  // Takes back a slot that was not announced after all.
  void give(Chunk *chunk);
  // Says that the slot is the guest's from now on, and returns its number for the guest.
  uint32_t announce(Chunk *chunk);
  // Takes back slots, a bit each, of which the guest says that it has the bytes. False, with
  // nothing done, when one of them was not announced.
  bool taken(uint64_t slots);
  // Returns those that the guest has, a bit each.
  uint64_t announced();

 private:
  static constexpr unsigned kSlots = kUploads + kDownloads;
  static_assert(kUploads <= WIRE_REGION_SLOTS && kDownloads <= WIRE_REGION_SLOTS);
  static_assert(kMoveUploads <= kSlots);

  Region(const Driver &driver, For whom)
      : driver_(driver),
        slot_(whom == For::kGuest ? kSlot : kMoveSlot),
        uploads_(whom == For::kGuest ? kUploads : kMoveUploads),
        downloads_(whom == For::kGuest ? kDownloads : 0),
        bytes_in_all_(slot_ * (uploads_ + downloads_)),
        free_((uint64_t{1} << downloads_) - 1) {}
  bool open();
  bool map();
  unsigned number(const Chunk *chunk) const {
    return static_cast<unsigned>(chunk - slots_) - uploads_;
  }

  const Driver &driver_;
  const size_t slot_;
  const unsigned uploads_;
  const unsigned downloads_;
  const size_t bytes_in_all_;
  int fd_ = -1;
  uint8_t *bytes_ = nullptr;
  bool registered_ = false;
  Chunk slots_[kSlots];

  std::mutex mutex_;
  std::condition_variable changed_;
  uint64_t busy_ = 0;  // uploads
  uint64_t free_;      // downloads
  uint64_t announced_ = 0;
};

}  // namespace outboard
