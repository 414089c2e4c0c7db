// The device memory of a session: what is mapped in its window, memory that the guest manages
// itself, and the globals of its modules. Used by the leader alone.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/driver.h"
#include "base/handles.h"
#include "memory/offers.h"
#include "memory/peers.h"
#include "memory/scrubber.h"

namespace outboard {

// What a session may have, in bytes of the device's memory.
struct MemoryLimits {
  uint64_t mapped = 0;
  // Under pinned memory of the host; what is more counts as mapped.
  uint64_t pinned = 0;
};

// What memory has to know of the session.
struct SessionState {
  // Whether the device may wait for the guest, and the driver for the device when it unmaps.
  std::function<bool()> held_up;
  // Whether all its work on the device has ended.
  std::function<bool()> resting;
  // Whether a stream may wait for a value in the range.
  std::function<bool(uint64_t address, uint64_t size)> awaited;
};

class Memory {
 public:
  Memory(const Driver &driver, int ordinal, Scrubber &scrubber, uint64_t window_base,
         uint64_t window_size, MemoryLimits limits, SessionState session);

  // Why a range cannot be mapped however the device feels about it, or null.
  const char *misuse(uint64_t address, uint64_t size) const;
  // Puts memory under the range. `misuse` has nothing against it.
  CUresult map(uint64_t address, uint64_t size, bool pinned = false);

  // Whether exactly this was mapped.
  bool is_mapping(uint64_t address, uint64_t size) const;
  // Takes it from the session and lets the device overwrite it; it goes back to the device once
  // that is done, which nobody waits for.
  CUresult unmap(uint64_t address);
  // Whether it was unmapped before work ended that may use it, and is still there.
  bool is_early(uint64_t address, uint64_t size) const;
  // Everything; or all but what the guest manages itself, which outlives resets. The first error,
  // if any: then memory may not be clean.
  CUresult release(bool everything);

  // ---- memory apart from addresses: virtual_memory.cc. `misuse` as above.

  const char *create_misuse(uint64_t handle, uint64_t size) const;
  CUresult create(uint64_t handle, uint64_t size, bool shareable);
  // Whether there is such memory, and nothing maps it.
  bool can_end(uint64_t handle);
  CUresult end(uint64_t handle);
  const char *place_misuse(uint64_t address, uint64_t size, uint64_t offset, uint64_t handle);
  CUresult place(uint64_t address, uint64_t size, uint64_t offset, uint64_t handle);
  // Whether the range is of whole mappings of such memory, or of mappings at all.
  bool is_placed(uint64_t address, uint64_t size, bool whole) const;
  // Takes the mappings from the session; the driver is to be told of each, by any thread.
  std::vector<std::pair<uint64_t, uint64_t>> displace(uint64_t address, uint64_t size);
  CUresult set_access(uint64_t address, uint64_t size, uint32_t flags);

  // ---- memory that sessions share: shared_memory.cc.

  void set_sharer(const Sharer &sharer) { sharer_ = sharer; }
  const Sharer &sharer() const { return sharer_; }
  // Descriptors of memory, for other processes: of a piece, of a mapping. The device is at rest
  // unless the mapping is shareable already.
  CUresult share(uint64_t handle, uint64_t *size, int *fd);
  bool is_shareable(uint64_t address) const;
  CUresult share_mapping(uint64_t address, uint64_t *size, int *fd);
  // `create_misuse` has nothing against the handle.
  CUresult import(uint64_t handle, uint64_t size, int fd, const ShareName &name);

  // ---- memory that the sessions of a program lend each other: peer_memory.cc. `misuse` as above.

  // Before the first memory is made; null: the program has no other session here.
  void set_lender(std::shared_ptr<Lender> lender) { lender_ = std::move(lender); }
  Lender *lender() const { return lender_.get(); }
  void join(unsigned peer, std::unique_ptr<PeerLink> link) { peers_[peer] = std::move(link); }
  bool has_joined(unsigned peer) const { return peer < peers_.size() && peers_[peer]; }
  // `number` is one that may be lent.
  CUresult lend(uint64_t address, uint64_t size, uint64_t number);
  // Borrowed memory does not count: it does where it is lent.
  CUresult borrow(uint64_t address, uint64_t size, unsigned peer, uint64_t number, uint32_t flags);
  bool is_borrowed(uint64_t address, uint64_t size) const;
  CUresult give_back(uint64_t address);
  // All of it, and leaves the peers.
  CUresult give_back_all();

  // Whether all of [address, address + size) is the session's.
  bool reachable(uint64_t address, uint64_t size) {
    // Consecutive commands mostly touch the same allocation.
    if (address - last_start_ <= last_size_ && size <= last_size_ - (address - last_start_)) {
      return true;
    }
    return find(address, size);
  }

  // Makes a module's variable reachable. False when it is already, or has no size.
  bool add_global(uint64_t address, uint64_t size);
  void remove_global(uint64_t address);

  // What counts towards the limit, and what is under pinned memory.
  uint64_t mapped() const { return mapped_; }
  uint64_t pinned() const { return pinned_; }

  // Memory without addresses counts like what is mapped: taken if there is so much left, left when
  // the guest has no more use for it, and gone when it is the device's again, which any thread
  // says.
  bool take_beside(uint64_t bytes);
  void leave_beside(uint64_t bytes) { mapped_ -= bytes; }
  void gone_beside(uint64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }
  // Called when more is wanted than is left until such memory is gone.
  void on_shortage(std::function<void()> wait) { shortage_ = std::move(wait); }

  // Memory that the session takes in other ways counts towards its limit, too: from now on so much.
  // False when that is more than there is.
  bool set_beside(uint64_t bytes);
  // What of the device's memory mappings take, with what is still being overwritten. Any thread.
  uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  struct Range {
    uint64_t size;
    CUmemGenericAllocationHandle memory;
    bool global;
    uint64_t placed = 0;  // handle of the memory that is placed here
    uint64_t offset = 0;  // in that memory
    bool shared = false;
    bool shareable = false;  // it became so
    bool lendable = false;
    uint64_t lent = 0;                     // number that it is lent under, or was borrowed by
    std::shared_ptr<Loan> loan = nullptr;  // of memory that was ever lent and is not placed
    unsigned borrowed = 0;                 // from which peer, counted from 1
    bool pinned = false;                   // under pinned memory of the host
  };

  // Memory that the guest manages itself.
  struct Physical {
    CUmemGenericAllocationHandle memory = 0;
    uint64_t size = 0;
    size_t mappings = 0;
    bool shareable = false;
    uint64_t handle = 0;
    bool shared = false;                // there are share names for it
    std::optional<ShareName> imported;  // it is another session's
    bool lendable = false;
    std::shared_ptr<Loan> loan = nullptr;
  };

  struct Retired {
    uint64_t address;
    uint64_t size;
    CUmemGenericAllocationHandle memory;
    bool apart = false;  // at addresses reserved for that alone; 0: they are yet to be
    // Somebody has borrowed it, and it is overwritten once that is over.
    std::shared_ptr<Loan> loan = nullptr;
    // Work that was begun before may still write there, or wait for a value there: a guest should
    // have waited for it. Overwritten when all work has ended, or once nothing reaches it.
    bool early = false;
    // It could not be overwritten, and stays until the process goes: nobody else is to have it.
    bool unclean = false;

    bool overlaps(uint64_t start, uint64_t length) const {
      return start < address + size && address < start + length;
    }
  };

  bool find(uint64_t address, uint64_t size);
  bool overlaps_retired(uint64_t address, uint64_t size) const;
  CUresult reap(bool wait);
  CUresult reap_all();
  CUresult overwrite_returned(bool wait);
  CUresult overwrite_ended();
  CUresult overwrite_early(bool resting);
  CUresult clear_way(uint64_t address, uint64_t size);
  CUresult give_to_device();
  void withdraw(Range *range);
  bool is_lent(const std::shared_ptr<Loan> &loan) { return loan && lender_->is_held(*loan); }
  // Whether what is being overwritten and so much more are beyond the limits together.
  bool crowded(uint64_t size) const {
    const uint64_t most = limits_.mapped + limits_.pinned - beside_;
    return size > most - std::min(taken(), most);
  }
  // What of pinned memory counts as mapped.
  uint64_t counted(uint64_t pinned) const {
    return pinned > limits_.pinned ? pinned - limits_.pinned : 0;
  }
  void make_way() {
    if (shortage_) shortage_();
  }
  uint64_t left() const { return limits_.mapped - beside_ - mapped_; }
  CUresult make_room(uint64_t size, uint64_t counting, bool settle);
  CUresult create(uint64_t size, bool shareable, CUmemGenericAllocationHandle *memory);
  CUresult create_lendable(uint64_t size, bool shareable, CUmemGenericAllocationHandle *memory,
                           bool *lendable);
  CUresult map_whole(uint64_t address, uint64_t size, CUmemGenericAllocationHandle memory);
  CUresult exchange(uint64_t address, Range *range);
  CUresult drop(const Physical &physical);
  CUresult scrub_apart(uint64_t size, CUmemGenericAllocationHandle memory,
                       std::shared_ptr<Loan> loan = nullptr);
  CUresult overwrite(Retired *retired);
  CUresult begin_overwriting(Retired *retired);

  const Driver &driver_;
  const int ordinal_;
  Scrubber &scrubber_;
  const uint64_t base_;
  const uint64_t size_;
  const MemoryLimits limits_;
  const SessionState session_;
  uint64_t mapped_ = 0;
  uint64_t pinned_ = 0;
  uint64_t beside_ = 0;
  std::atomic<uint64_t> taken_{0};
  std::function<void()> shortage_;
  std::map<uint64_t, Range> ranges_;  // by address, not overlapping
  std::vector<Retired> retired_;      // being overwritten, still mapped
  HandleTable<Physical, WIRE_KIND_MEMORY> physicals_;
  size_t physical_count_ = 0;
  size_t shareable_count_ = 0;
  size_t placed_count_ = 0;
  Sharer sharer_{};
  std::shared_ptr<Lender> lender_;
  std::array<std::unique_ptr<PeerLink>, kMostPeers> peers_;
  size_t lendable_count_ = 0;
  CUresult unscrubbed_ = CUDA_SUCCESS;  // why some memory could not be overwritten
  uint64_t last_start_ = 0;
  uint64_t last_size_ = 0;
};

}  // namespace outboard
