// A grid that is being executed, and one of its blocks.
#pragma once

#include <atomic>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "engine.h"
#include "execute/warp.h"
#include "translate/program.h"

namespace softdev {

struct Grid {
  explicit Grid(Launch launch);

  Launch launch;
  const KernelImpl *kernel;
  const Executable *executable;
  uint64_t clusters = 0;
  uint32_t cluster_blocks = 1;
  uint32_t threads = 0;  // of one block
  uint32_t warps = 0;
  uint32_t shared_bytes = 0;    // that a block may touch, the system's part included
  uint32_t shared_units = 0;    // bytes of the units that the block's own part takes
  uint32_t stack_bytes = 0;     // of each thread
  uint32_t reserved_begin = 0;  // offset of the system's part of shared memory
  uint64_t id = 0;
  uint64_t workspace = 0;  // of a cooperative grid
  unsigned workers = 1;

  std::atomic<uint64_t> next{0};  // the cluster to start next
  std::atomic<uint64_t> finished{0};
  std::atomic<bool> abandoned{false};
  std::atomic<bool> spins{false};  // a block has waited for others
  std::mutex mutex;                // guards status and print
  Status status;

  void fail(Status why);  // the first one stays
  // Whether it has run for longer than it may.
  bool overdue();

 private:
  std::atomic<int64_t> started_ns_{0};
};

// A frame takes some space even if nothing is in it, so that endless recursion ends.
inline uint32_t frame_size(uint32_t bytes) { return bytes < 16 ? 16 : (bytes + 15) & ~15u; }

struct BlockBarrier {
  uint32_t arrived = 0;
  uint32_t padded = 0;    // the same with absent lanes of a warp counted
  uint32_t expected = 0;  // 0: all threads
  uint32_t votes = 0;
};

// A block, and the memory that it runs in. Kept for the next block of the same grid.
struct Cta {
  Cta(std::shared_ptr<Grid> grid, struct Cluster *cluster, uint32_t rank, uint32_t worker);
  ~Cta();

  // Makes it the block at these places of the grid.
  void start(uint32_t x, uint32_t y, uint32_t z);

  enum class Result { Done, Parked, Blocked, Failed };
  // Runs until the block is done, has failed, has used up its slice, or waits for its cluster.
  Result run(uint64_t slice);

  Frame *take_frame(Warp &warp, const Function *function);
  void release_frame(Frame *frame);
  void thread_of(const Warp &warp, unsigned lane, uint32_t out[3]) const;

  // Lets a try_wait give up; false when there is none.
  bool end_waits();
  // All threads wait and none can go on.
  void fail_waiting(const char *whose);
  void fail_late();
  uint8_t *shared() const { return shared_.get(); }

  std::shared_ptr<Grid> grid;
  struct Cluster *cluster;
  uint32_t rank;  // in the cluster
  uint32_t worker;
  uint64_t index = 0;
  uint32_t position[3] = {0, 0, 0};
  uint32_t of_cluster[3] = {0, 0, 0};  // position in the cluster
  uint32_t live_threads = 0;
  std::vector<int32_t> last_errors;  // of the device runtime, by thread; empty: none
  uint32_t mbarrier_waits = 0;       // groups that wait at a try_wait
  bool failed = false;
  bool progress = false;  // something ran in the last run()
  BlockBarrier barriers[16];
  uint32_t barriers_in_use = 0;  // one bit each: somebody has arrived
  std::vector<Warp> warps;

 private:
  // 64-byte aligned. Zeroed, or what an earlier block of the same worker left: a launch of a small
  // kernel shall not wait for memory. Pages that are never touched cost nothing.
  struct Memory {
    std::unique_ptr<uint8_t, void (*)(void *)> owner{nullptr, std::free};
    uint8_t *data = nullptr;
    size_t bytes = 0;
    uint8_t *get() const { return data; }
  };
  static std::vector<Memory> &spare();
  static Memory allocate(size_t bytes);
  static void give_back(Memory memory);
  void fill(const std::vector<SlotFill> &fills, uint8_t *registers, const Warp &warp);
  void fill_block(const Function &kernel);
  const Ins *begin(Warp &warp, Frame &frame);
  bool fill_lanes(const Constant &constant, uint8_t *slot, const Warp &warp) const;
  uint64_t value_of(Special special, const Warp &warp) const;
  uint64_t value_of(const Constant &constant, const Warp &warp) const;
  bool break_deadlock();
  uint32_t turns_ = 0;
  uint32_t begun_ = 0;  // warps that have had a turn
  bool started_ = false;

  Memory shared_, local_, registers_, parameters_;
  std::vector<Frame> entry_frames_;                // of each warp
  std::vector<std::unique_ptr<Frame>> frames_;     // of called functions
  std::vector<std::vector<Frame *>> free_frames_;  // by function
  std::vector<Memory> frame_memory_;
  size_t frame_bytes_ = 0;
};

// ---- groups of lanes

inline constexpr int32_t kTurn = 1024;  // backward branches of an ordinary turn
inline const Ins *const kNoMerge = reinterpret_cast<const Ins *>(~uintptr_t{0});

// A new group of waiting lanes, of the running frame.
Group &park(Warp &warp, const Ins *pc, uint32_t mask, GroupState state);
// Lanes wait at `pc`; they join a ready group that is already there.
void insert_group(Warp &warp, Frame *frame, const Ins *pc, uint32_t mask);
// Makes a ready group the running one and returns its pc, or nullptr when there is none.
const Ins *resume(Warp &warp);
void update_merge(Warp &warp);
// Arrived threads against expected ones; wakes those who wait when they suffice.
void try_release(Cta &cta, unsigned barrier);
void exit_lanes(Warp &warp, uint32_t mask);

// ---- shared memory of the blocks of a cluster

Cta *shared_owner(Warp &warp, uint64_t address, uint64_t size);

}  // namespace softdev
