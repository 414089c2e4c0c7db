// All memory of the process that the driver knows: who owns which addresses, and what kernels and
// copies may do there. Device addresses are host addresses.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <shared_mutex>
#include <string>
#include <vector>

#include "core/handles.h"
#include "memory/advice.h"
#include "memory/arena.h"
#include "memory/shared.h"
#include "memory/space.h"

namespace softdev::driver {

enum class RegionKind { kDevice, kHost, kRegistered, kManaged, kReservation, kArray, kImported };

// Physical memory of cuMemCreate. Lives as long as its handle or a mapping of it.
class Allocation : public Object {
 public:
  static constexpr Kind kKind = Kind::kAllocation;
  Allocation(PhysicalMemory *memory, int on_device, uint64_t bytes)
      : physical(memory), device(on_device), size(bytes) {}
  ~Allocation() override;

  // Whose memory it counts as; nullptr for what another process made.
  PhysicalMemory *const physical;
  const int device;
  const uint64_t size;
  std::vector<Extent> extents;  // in the device's file, or all of its own
  std::shared_ptr<File> file;   // its own: it can be shared
  bool map(uint64_t address, const std::vector<Extent> &parts) const;
  unsigned references = 0;  // to the handle; under the lock of entry/memory/virtual_memory.cpp
};

struct Mapping {
  uint64_t size = 0;
  uint64_t offset = 0;
  std::shared_ptr<Allocation> allocation;
};

struct Region {
  RegionKind kind = RegionKind::kDevice;
  uint64_t base = 0;
  uint64_t size = 0;
  int device = -1;                                // -1: host
  uint64_t context = 0;                           // handle of the owner; 0 for reservations
  unsigned flags = 0;                             // as the allocating call was given them
  uint64_t id = 0;                                // CU_POINTER_ATTRIBUTE_BUFFER_ID
  uint64_t pool = 0;                              // handle of the memory pool it came from
  std::shared_ptr<const void> of_pool;            // the pool itself
  bool variable = false;                          // of a module
  bool graph = false;                             // graphs decide when it is freed
  bool backed = true;                             // has physical memory
  std::vector<std::shared_ptr<Granules>> access;  // own windows, per device; empty in arenas
  std::map<uint64_t, Mapping> mappings;           // of a reservation, by address
  AdviceMap advice;                               // on managed memory
  std::shared_ptr<Share> share;                   // when it was offered to other processes
  ShareName name = {};                            // kImported: what it came by
  unsigned opened = 0;                            // kImported: how often
  uint64_t window = 0, window_size = 0;           // kImported: its addresses, whole granules
  std::vector<Arena::Retired> retired;            // what is unmapped when it is not held any more
  bool destroyed = false;
};

// The device whose memory it is at an address of the region; -1: the host, or nothing.
int device_of(const Region &region, uint64_t address);

class Memory {
 public:
  // One arena and one address space per device, with so many bytes of memory. False when the
  // system does not let us have the addresses. `residue`: memory that is given back keeps its
  // bytes. `granularity`: what sizes and addresses of virtual memory management are multiples of.
  bool create(const std::vector<uint64_t> &devices, bool residue, uint64_t granularity,
              Checks checks);
  uint64_t granularity() const { return granularity_; }
  // To be called when a context begins. At a place, from 0 on, what the first one of the process
  // allocates, variables of modules above all, has the same addresses in every process of that
  // place that allocates the same in the same order, on whatever device: kernels may keep such
  // addresses in memory that is copied elsewhere. Where others have those addresses already, and
  // for a place below 0, it has any.
  void begin_context(int device, int place);

  PhysicalMemory &physical(int device) { return *devices_[static_cast<size_t>(device)].physical; }
  Space &space(int device) { return *devices_[static_cast<size_t>(device)].space; }
  uint64_t free_bytes(int device) const;

  // Allocations; 0 when there is no room.
  uint64_t allocate_device(int device, uint64_t size, uint64_t align, uint64_t context,
                           RegionKind kind = RegionKind::kDevice,
                           uint8_t flags = kReadable | kWritable, bool variable = false);
  uint64_t allocate_host(uint64_t size, RegionKind kind, int device, uint64_t context,
                         unsigned flags, uint64_t align = 512, bool variable = false);
  // Addresses for memory of graphs; and physical memory for them, given and taken. `*id` is the
  // region's number, by which it is known later.
  uint64_t reserve_device(int device, uint64_t size, uint64_t context, uint64_t *id);
  bool back(uint64_t base, uint64_t id);
  void unback(uint64_t base, uint64_t id);
  // Makes the program's own memory reachable, as far as its pages. CUDA_ERROR_HOST_MEMORY_ALREADY_
  // REGISTERED when part of it is; several may share a page. CUDA_ERROR_INVALID_VALUE when part of
  // it is not there.
  int register_host(uint64_t base, uint64_t size, uint64_t context, unsigned flags);

  // Takes the region that begins at `base` off the books, if `fits` agrees: no new copy finds it
  // any more, and no other process opens it. Give it to `destroy` when the work that may use it is
  // done: until then kernels do as ever. Work that was queued with it keeps it mapped meanwhile.
  std::shared_ptr<Region> remove(uint64_t base, const std::function<bool(const Region &)> &fits);

  // Ends a removed region. `settle` is called after closing it to kernels. It is unmapped when
  // nobody holds it any more: neither the caller nor queued work.
  void destroy(std::shared_ptr<Region> region, const std::function<void()> &settle);

  // How often memory has gone away, or been closed: what was found valid before need not be.
  uint64_t removals() const { return removals_.load(std::memory_order_relaxed); }

  // Virtual memory management (virtual.cpp). Results are CUresult values.
  uint64_t reserve(uint64_t size, uint64_t align, uint64_t at, uint64_t from = 0);
  int map(uint64_t address, uint64_t size, uint64_t offset, std::shared_ptr<Allocation> allocation);
  // `settle` waits for the work that may use it, before it is closed to kernels and after.
  int unmap(uint64_t address, uint64_t size, const std::function<void()> &settle);
  int set_access(uint64_t address, uint64_t size, int device, uint8_t flags);
  int get_access(uint64_t address, int device, uint8_t *flags) const;
  std::shared_ptr<Allocation> allocation_at(uint64_t address) const;
  bool may_free_reservation(uint64_t address, uint64_t size) const;
  int free_reservation(uint64_t address, uint64_t size);

  // Changes the advice on a part of managed memory. False when it is not wholly that.
  bool advise(uint64_t address, uint64_t size, const std::function<void(Advice &)> &how);

  // Sharing (import.cpp). A description of the allocation that holds `address`, if `fits` agrees,
  // for other processes; nullptr when there is none.
  std::shared_ptr<Share> offer(uint64_t address, SharedKind kind, uint64_t pool,
                               const CUuuid &device,
                               const std::function<bool(const Region &)> &fits);
  // Maps what a share name is for, for kernels of `device` and of `user`. Where the context has it
  // already, counts once more if that is allowed. 0 when there is no room.
  uint64_t import(const ShareName &name, const Description &description, const File &file,
                  int device, int user, uint64_t context, uint64_t pool);
  uint64_t imported_again(const ShareName &name, uint64_t context);
  // True when this was the last use, and the region is to be removed.
  bool release_import(uint64_t base);

  // Peers: lets kernels of `device` into the arena of `peer`.
  void open_to_peer(int device, int peer, bool open);

  // While a pin is held no region is removed: what was found valid can be queued safely.
  using Pin = std::shared_lock<std::shared_mutex>;
  Pin pin() const { return Pin(mutex_); }

  // With a pin held -----------------------------------------------------------------------------

  // The region that holds `address`, or nullptr.
  const Region *find(uint64_t address) const;
  // The same, for work that is queued: the memory stays mapped as long as it is held.
  std::shared_ptr<const Region> hold(uint64_t address) const;
  // Whether all of [address, address + size) may be copied to or from by the driver.
  bool copyable(uint64_t address, uint64_t size) const;
  // The same, if it had physical memory.
  bool covers(uint64_t address, uint64_t size) const;
  // Whether the address lies where only the driver gives out memory.
  bool in_arena(uint64_t address) const;

  // Whether one region holds all of these bytes, be it one that is about to go. Takes the pin
  // itself.
  bool holds(uint64_t address, uint64_t size) const;
  // One sentence on what lies nearest to an address. Takes the pin itself.
  std::string describe(uint64_t address) const;
  // All regions that belong to a context.
  std::vector<uint64_t> owned_by(uint64_t context) const;
  // The pool lives as long as the region does, destroyed or not: devices were let in by it.
  void set_pool(uint64_t address, uint64_t handle, std::shared_ptr<const void> pool);

 private:
  struct PerDevice {
    std::unique_ptr<PhysicalMemory> physical;
    std::unique_ptr<Space> space;
    std::shared_ptr<Arena> arena;
  };

  uint64_t add(Region region);
  void remember_freed(const Region &region);
  Region *find_reservation(uint64_t address, uint64_t size);
  Region *find_mappings(uint64_t address, uint64_t size);
  Arena *arena_of(const Region &region) const;
  void unmap_destroyed(const Region &region);
  std::string place_of(uint64_t address) const;

  using Regions = std::map<uint64_t, std::shared_ptr<Region>>;
  bool is_bare(Regions::const_iterator at, uint64_t size) const;

  mutable std::shared_mutex mutex_;
  bool granular(uint64_t address, uint64_t size) const;

  Checks checks_ = Checks::kPages;
  uint64_t granularity_ = kGranule;
  std::vector<PerDevice> devices_;
  std::shared_ptr<Arena> host_;
  Regions regions_;
  // Off the books, and still in use by kernels.
  std::multimap<uint64_t, std::shared_ptr<Region>> leaving_;
  // What was freed last, for messages.
  static constexpr size_t kRemembered = 64;
  static constexpr uint64_t kNear = 512;  // bytes behind an allocation that are spoken of as its
  std::deque<std::pair<uint64_t, uint64_t>> freed_;  // (base, size)
  uint64_t refused_ = 0;                             // bytes last asked for that were not there
  uint64_t next_id_ = 1;
  std::atomic<uint64_t> removals_{0};
  bool had_context_ = false;
};

}  // namespace softdev::driver
