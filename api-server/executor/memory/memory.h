// The device memory of a session: what is mapped in its window, memory that the guest manages
// itself, and the variables of its modules. Used by the leader alone, but for what says otherwise.
// Addresses and sizes are bytes of the device.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "base/driver.h"
#include "base/handles.h"
#include "memory/offers.h"
#include "memory/peers.h"
#include "memory/scrubber.h"
#include "wire.h"

namespace outboard {

// How much a session may have, in bytes of the device's memory.
struct MemoryLimits {
  uint64_t mapped = 0;
  // What lies under pinned memory of the host. What a session has more of it counts as mapped.
  uint64_t pinned = 0;
  // What sizes and addresses are multiples of, as the driver wants it.
  uint64_t granule = WIRE_GRANULE;
};

// What Memory asks of the session. Each is called by the leader.
struct SessionState {
  // Whether the device may wait for the guest, and the driver for the device when it unmaps.
  std::function<bool()> waits_for_guest;
  // Whether all its work on the device has ended.
  std::function<bool()> resting;
  // Whether a stream may wait for a value in the range.
  std::function<bool(uint64_t address, uint64_t size)> awaited;
};

class Memory {
 public:
  Memory(const Driver &driver, int ordinal, Scrubber &scrubber, uint64_t window_base,
         uint64_t window_size, MemoryLimits limits, SessionState session);

  // Returns the rule that a guest breaks which wants this range mapped; null when it breaks none.
  const char *misuse(uint64_t address, uint64_t size) const;
  // Maps new memory at the range, for which `misuse` has returned null. Returns
  // CUDA_ERROR_OUT_OF_MEMORY where the session's limit or the device has not so much left, or
  // another error of the driver; nothing has changed then.
  CUresult map(uint64_t address, uint64_t size, bool pinned = false);

  // Writes zeros to all of a range that `map` has just made, so that the device has what lies under
  // it. Nobody waits for that.
  CUresult touch(uint64_t address, uint64_t size);

  // What `map` has made.
  struct Mapping {
    uint64_t size;
    bool pinned;
    bool operator==(const Mapping &) const = default;
  };
  // Returns each, by its address.
  std::map<uint64_t, Mapping> mappings() const;
  // Whether `map` has made exactly this range.
  bool is_mapping(uint64_t address, uint64_t size) const;
  // Takes a range, which `is_mapping` knows, from the session. The device overwrites it with zeros
  // and has it back once that is done; nobody waits for it.
  CUresult unmap(uint64_t address);
  // Whether the range was unmapped before work had ended that may use it, and is still mapped on
  // the device.
  bool is_early(uint64_t address, uint64_t size) const;
  // Gives back everything, or all but what the guest manages itself, which outlives a reset. All
  // work has ended. Returns the first error; then some memory may not have been overwritten.
  CUresult release(bool everything);

  // ---- pieces of memory that the guest manages itself: virtual_memory.cc. What is called
  // `..._misuse` returns the rule that the guest breaks, or null, and has to be asked first.

  const char *create_misuse(uint64_t handle, uint64_t size) const;
  // Makes a piece without an address, under a handle that the guest has minted.
  CUresult create(uint64_t handle, uint64_t size, bool shareable);
  // Whether there is such a piece, and it is mapped nowhere, on the device neither.
  bool can_end(uint64_t handle);
  // Overwrites a piece, for which `can_end` holds, and gives it back.
  CUresult end(uint64_t handle);
  const char *place_misuse(uint64_t address, uint64_t size, uint64_t offset, uint64_t handle);
  // Maps a piece at an address, from `offset` in it on. CUDA_ERROR_INVALID_VALUE when there is no
  // such piece, CUDA_ERROR_OUT_OF_MEMORY when there are as many mappings as may be.
  CUresult place(uint64_t address, uint64_t size, uint64_t offset, uint64_t handle);
  // Whether every byte of the range is mapped, to a piece or to what was borrowed. With `whole`:
  // whether the range is that of one mapping of a piece, or of several that follow one another.
  bool is_placed(uint64_t address, uint64_t size, bool whole) const;
  // A mapping that the session has no more, and the device still has.
  struct Displaced {
    uint64_t address, size;
    // As long as there is one, its piece cannot be ended.
    std::shared_ptr<const void> keeps;
  };
  // Takes the mappings in a range, which `is_placed` as a whole, from the session. The caller has
  // to unmap each on the device, by whatever thread, and to forget it then.
  std::vector<Displaced> displace(uint64_t address, uint64_t size);
  // Sets what kernels may do in a range, for which `is_placed` holds. CUDA_ERROR_INVALID_VALUE when
  // `flags` are no CUmemAccess_flags that we know.
  CUresult set_access(uint64_t address, uint64_t size, uint32_t flags);

  // What a session that moves takes along of it, while all is at rest.
  struct Piece {
    uint64_t handle, size;
    bool shareable;
  };
  std::vector<Piece> pieces();
  struct Placement {
    uint64_t address, size, offset, handle;
  };
  // By address.
  std::vector<Placement> placements() const;
  // What kernels may do in the granule at an address of a placement: CUmemAccess_flags in *flags.
  CUresult access_at(uint64_t address, uint64_t *flags) const;
  // Maps a piece whole at addresses outside of the window, so that it can be read: *address, until
  // `end_view`.
  CUresult view(const Piece &piece, uint64_t *address);
  void end_view(const Piece &piece, uint64_t address);
  // Returns an address in the window where nothing of the session's is in so many bytes; 0: there
  // is none.
  uint64_t gap(uint64_t size) const;

  // ---- memory that sessions share: shared_memory.cc.

  void set_sharer(const Sharer &sharer) { sharer_ = sharer; }
  const Sharer &sharer() const { return sharer_; }
  // Makes a descriptor of a piece, by which another process can import it: *fd, which is the
  // caller's. Sets the size of *shared, which is the piece's, and its owner where that is another
  // session.
  CUresult share(uint64_t handle, Shared *shared, int *fd);
  // Whether the mapping at the address has become shareable before.
  bool is_shareable(uint64_t address) const;
  // The same as `share`, of the mapping at an address. The device must be at rest, unless
  // `is_shareable`: the mapping gets other memory then.
  CUresult share_mapping(uint64_t address, Shared *shared, int *fd);
  // Makes a piece of another session's memory, under a handle for which `create_misuse` returns
  // null. `fd` stays the caller's.
  CUresult import(uint64_t handle, const Shared &shared, int fd);

  // ---- memory that the sessions of a program lend each other: peer_memory.cc.

  // To be called before the first memory is made. Null: the program has no other session here.
  void set_lender(std::shared_ptr<Lender> lender) { lender_ = std::move(lender); }
  Lender *lender() const { return lender_.get(); }
  void join(unsigned peer, std::unique_ptr<PeerLink> link) { peers_[peer] = std::move(link); }
  bool has_joined(unsigned peer) const { return peer < peers_.size() && peers_[peer]; }
  // Lends a mapping under a number, for which Lender::may_lend holds.
  CUresult lend(uint64_t address, uint64_t size, uint64_t number);
  // Maps at a range what a peer, who has joined, has lent under a number; waits until it has. It
  // does not count here, as it counts where it is lent.
  CUresult borrow(uint64_t address, uint64_t size, unsigned peer, uint64_t number, uint32_t flags);
  // Whether `borrow` has mapped exactly this range.
  bool is_borrowed(uint64_t address, uint64_t size) const;
  // Unmaps what was borrowed at the address, and tells the peer.
  CUresult give_back(uint64_t address);
  // Gives back all that was borrowed, and leaves the peers.
  CUresult give_back_all();

  // Whether all of [address, address + size) is the session's.
  bool reachable(uint64_t address, uint64_t size) {
    // Consecutive commands mostly touch the same allocation.
    if (address - last_start_ <= last_size_ && size <= last_size_ - (address - last_start_)) {
      return true;
    }
    return find(address, size);
  }

  // The same for any thread, of what was mapped or is a variable: whether it is there at this
  // moment. No pieces that the guest manages itself, nothing that was borrowed.
  bool holds(uint64_t address, uint64_t size) const;

  // Makes a module's variable part of the session's memory. False when it is already, or has no
  // size.
  bool add_global(uint64_t address, uint64_t size);
  void remove_global(uint64_t address);

  uint64_t granule() const { return limits_.granule; }
  // Returns how many bytes count towards the limit.
  uint64_t mapped() const { return mapped_; }
  // Returns how many bytes lie under pinned memory.
  uint64_t pinned() const { return pinned_; }

  // Arrays have no addresses, and count like what is mapped. For each, take_beside is called first;
  // false: there is not so much left.
  bool take_beside(uint64_t bytes);
  // Says that the guest has destroyed such memory.
  void leave_beside(uint64_t bytes) { mapped_ -= bytes; }
  // Says that the device has it again. Any thread.
  void gone_beside(uint64_t bytes) { taken_.fetch_sub(bytes, std::memory_order_relaxed); }
  // `wait` is called when more is wanted than is left, and waits for what gone_beside will say.
  void on_shortage(std::function<void()> wait) { shortage_ = std::move(wait); }

  // Says how many bytes of the limit go to what the driver has beside all this (cuCtxSetLimit).
  // False, with nothing changed, when there is not so much left.
  bool set_beside(uint64_t bytes);
  // The same for stacks that kernels have made the driver take beyond what is kept back for them:
  // the guest does not count those, so they may only take what is near the limit.
  bool set_stacks(uint64_t bytes);
  // The same for those that the driver has already, as far as the limit goes.
  void keep_stacks(uint64_t bytes);
  // Whether so much could be mapped now. CUDA_ERROR_OUT_OF_MEMORY, or an error of the driver.
  CUresult find_room(uint64_t size);
  // Whether the device has so much left, whoever has taken the rest. Waits for what is being
  // overwritten where it has not. The errors are the same.
  CUresult find_free(uint64_t size);
  // Returns how many bytes of the device's memory are taken, with what is still being overwritten.
  // Any thread.
  uint64_t taken() const { return taken_.load(std::memory_order_relaxed); }

 private:
  struct Range {
    uint64_t size;
    CUmemGenericAllocationHandle memory;
    bool global;
    uint64_t placed = 0;                   // handle of the piece that is mapped here; 0: none is
    uint64_t offset = 0;                   // in that piece
    bool shared = false;                   // there is a share name for it
    bool shareable = false;                // share_mapping has made it so
    bool lendable = false;                 // it was made so that peers may borrow it
    uint64_t lent = 0;                     // the number under which it is lent, or was borrowed
    std::shared_ptr<Loan> loan = nullptr;  // there is one once it was lent, unless a piece is here
    unsigned borrowed = 0;                 // from which peer, counted from 1; 0: from none
    bool pinned = false;                   // it lies under pinned memory of the host
  };

  // A piece of memory that the guest manages itself.
  struct Physical {
    CUmemGenericAllocationHandle memory = 0;
    uint64_t size = 0;
    size_t mappings = 0;
    bool shareable = false;
    uint64_t handle = 0;
    bool shared = false;            // there are share names for it
    std::optional<Owner> imported;  // it is another session's
    bool lendable = false;
    std::shared_ptr<Loan> loan = nullptr;
    std::shared_ptr<const void> keeps = nullptr;  // of mappings that the device has to let go of
  };

  // Memory that the session had, on its way back to the device.
  struct Retired {
    uint64_t address;
    uint64_t size;
    CUmemGenericAllocationHandle memory;
    // It is not where the session had it: `address` is reserved for overwriting it, or 0 when that
    // is still to be done.
    bool apart = false;
    // Set while a peer has borrowed it. It is overwritten once nobody has.
    std::shared_ptr<Loan> loan = nullptr;
    // Work that was begun before may still write there, or wait for a value there; a guest should
    // have waited for it. It is overwritten when all work has ended, or once nothing reaches it.
    bool early = false;
    // It could not be overwritten, so it stays until the process goes, and nobody else gets it.
    bool unclean = false;

    bool overlaps(uint64_t start, uint64_t length) const {
      return start < address + size && address < start + length;
    }
  };

  bool find(uint64_t address, uint64_t size);
  std::map<uint64_t, Range>::iterator forget(std::map<uint64_t, Range>::iterator range);
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
  // Whether what is taken and `size` bytes more are beyond the limits together.
  bool crowded(uint64_t size) const {
    const uint64_t most = limits_.mapped + limits_.pinned - beside_ - stacks_;
    return size > most - std::min(taken(), most);
  }
  // Returns how much of the pinned memory counts as mapped.
  uint64_t counted(uint64_t pinned) const {
    return pinned > limits_.pinned ? pinned - limits_.pinned : 0;
  }
  void make_way() {
    if (shortage_) shortage_();
  }
  uint64_t left() const { return limits_.mapped - beside_ - stacks_ - mapped_; }
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
  uint64_t stacks_ = 0;
  std::atomic<uint64_t> taken_{0};
  std::function<void()> shortage_;
  std::map<uint64_t, Range> ranges_;  // by address, not overlapping
  // Held while the leader adds ranges, or takes some away, and while others look at them.
  // Innermost.
  mutable std::mutex ranges_mutex_;
  std::vector<Retired> retired_;  // still to be overwritten and given back
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
