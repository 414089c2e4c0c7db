// The gate: whatever starts work on the device passes here, and nothing else can (driver.h,
// WorkDriver). It puts the work into launch groups and has the meter measure what they cost the
// device (meter.h). It holds them back when the session has used up its quota tokens (holds.h,
// quota_page.h).
//
// Holding back blocks no thread, neither of the session nor of the driver: a hold, which is a word
// that the stream waits for, goes into the stream in front of the work. To everything else the
// session looks like one whose device is busy: order, events, queries and synchronisations stay
// right by themselves. Holds are released as they come up in their streams, those of earlier
// launches first.
//
// Locks: mutex_, innermost; and that of the holds.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/counters.h"
#include "gate/holds.h"
#include "gate/kernel_times.h"
#include "gate/launch_group.h"
#include "gate/meter.h"
#include "gate/quota_page.h"
#include "gate/trace.h"
#include "wire/frame.h"

namespace outboard {

enum class Work { kKernel, kCopy, kSet };

// More than any device ends in a day, and so few that what is counted of blocks, also of all nodes
// of a session's graphs together, stays far from the end of its numbers.
inline constexpr uint64_t kMostBlocks = uint64_t{1} << 40;

// Returns how many blocks a grid has; kMostBlocks for one that is larger.
inline uint64_t blocks_of_grid(uint32_t x, uint32_t y, uint32_t z) {
  uint64_t blocks = uint64_t{x} * y;
  return __builtin_mul_overflow(blocks, z, &blocks) ? kMostBlocks : std::min(blocks, kMostBlocks);
}

struct GateOptions {
  bool copies = false;  // whether copies are held and measured, too
  bool sets = false;
  // Whether launches are measured that nothing holds back. False: they get no events, and what they
  // cost the device is not known.
  bool measured = true;
  // How long a launch may run; 0: for ever. Then `overdue` is told of its kernel, on a thread of
  // the gate's.
  uint64_t most_kernel_ns = 0;
  std::function<void(const std::string &kernel)> overdue{};
  // Is told, on the same thread, that work has begun which is held: the session's kernels have
  // written the words by which streams are held (hold_words.h).
  std::function<void()> slipped{};
};

class Gate {
 public:
  // Leave to start one piece of work, by one call of the driver or, as a download is, by several:
  // `->` gives the driver's functions that start work, which are to be had in no other way.
  class Pass {
   public:
    const WorkCalls *operator->() const { return calls_; }
    // Says what the call came to, which it returns: work that did not start costs nothing. The
    // leader's.
    CUresult started(CUresult result) {
      if (result != CUDA_SUCCESS && gate_) [[unlikely]]
        gate_->uncount(*this);
      return result;
    }
    // Says that all that a pass of `launch_apart` was asked for is in the stream. Any thread, once.
    void ended() {
      if (apart_) gate_->end_apart(apart_);
      apart_ = nullptr;
    }

   private:
    friend class Gate;
    LaunchGroup *apart_ = nullptr;  // of its own, which ends with `ended`
    const WorkCalls *calls_ = nullptr;
    Gate *gate_ = nullptr;          // when there is something to take back
    LaunchGroup *group_ = nullptr;  // null: it is not measured
    KernelCost *kernel_ = nullptr;
    uint64_t blocks_ = 0;
    uint64_t predicted_ = 0;
  };

  // `turns` null: no other slot uses the device.
  Gate(const Driver &driver, CUcontext context, std::shared_ptr<QuotaPage> page,
       HoldWords &hold_words, std::shared_ptr<TurnPage> turns, unsigned slot, uint64_t session,
       GateOptions options, std::function<void()> bind, Trace *trace = nullptr);
  ~Gate();

  // ---- for the leader --------------------------------------------------------------------------

  // Returns the entry of the kernel of that name, which lives as long as the session.
  KernelCost *cost_of(const std::string &name);
  // Ends the open group. To be called when what comes next is no launch, or nothing.
  void close_current_group() {
    if (current_) close_group();
  }
  // Tells the meter that the driver has all launches so far. To be called when what comes next is
  // no launch, and launches before and after it may be in one group all the same.
  void tell_all_with_driver() {
    if (current_) current_->with_driver.store(current_->launches, std::memory_order_release);
  }
  // Waits until all work is measured, which must have come to rest.
  void settle();
  // The same, last of all: nothing passes the gate any more.
  void finish();

  // ---- for any thread --------------------------------------------------------------------------

  // To be called before a stream is destroyed: one that is made later may have its address.
  void stream_goes(CUstream stream) {
    streams_gone_.fetch_add(1, std::memory_order_relaxed);
    holds_.stream_goes(stream);
  }
  // Counts device time of work that passes no gate, in nanoseconds.
  void ran_beside(uint64_t ns) {
    count(words_.device_ns, ns);
    if (words_.unit.load(std::memory_order_relaxed) == kModeDeviceTime) count(words_.charged, ns);
  }
  // Says in the quota page that the session is over; its counters stay until the next one begins.
  void leave();
  // Returns what the kernels that have cost most have cost so far: at most so many, dearest first.
  std::vector<KernelTime> kernel_times(size_t most) { return times_.list(most); }

 private:
  template <Work>
  friend class Starts;

  Pass launch(CUstream stream, KernelCost &kernel, uint64_t blocks);
  Pass launch_apart(CUstream stream, KernelCost &kernel, uint64_t blocks);
  void end_apart(LaunchGroup *group);
  Pass move(Work work, CUstream stream, uint64_t bytes);
  Pass enter(CUstream stream, KernelCost &kernel, uint64_t blocks);
  Pass enter_limited(CUstream stream, KernelCost &kernel, uint64_t blocks);
  Pass pass_unmeasured(KernelCost &kernel, uint64_t blocks);
  void uncount(const Pass &pass);

  LaunchGroup *take_group(CUstream stream, const KernelCost &first);
  LaunchGroup *begin_group(CUstream stream, const KernelCost &first);
  void start(LaunchGroup *group);
  void close_group();
  void close(LaunchGroup *group);
  bool has_room(const LaunchGroup *group, const KernelCost &kernel, uint64_t predicted,
                uint64_t most);
  Pass add(LaunchGroup *group, KernelCost &kernel, uint64_t blocks, uint64_t predicted);

  void finished(LaunchGroup *group, uint64_t ns, bool measured);
  void running(LaunchGroup *group, uint64_t ns);
  void remember_long(LaunchGroup *group, uint64_t ns);
  void overdue(LaunchGroup *group);

  const Driver &driver_;
  const std::shared_ptr<QuotaPage> page_;
  QuotaWords &words_;
  const GateOptions options_;
  Trace *const trace_;
  KernelTimes times_;
  KernelCost *const copies_;
  KernelCost *const sets_;

  // The leader's, but what a hold stands before is under the lock of the holds until it is
  // released.
  LaunchGroup *current_ = nullptr;
  uint64_t groups_begun_ = 0;

  std::atomic<size_t> under_way_{0};  // groups begun and not finished
  std::atomic<uint64_t> streams_gone_{0};

  std::mutex mutex_;  // of the three below
  size_t apart_ = 0;  // groups that another thread than the leader ends
  std::vector<std::unique_ptr<LaunchGroup>> all_;
  std::vector<LaunchGroup *> spare_;
  std::condition_variable apart_ended_;

  Holds holds_;
  Meter meter_;  // last: its thread calls us
};

// Leave to ask the gate for passes of one kind. Dispatch makes one for each command that is
// described with `starts` in proto/api, and hands it to the command's handler.
template <Work kWork>
class Starts {
 public:
  // Return a pass for one piece of work on the stream, which the caller starts at once: a launch of
  // `blocks` blocks, or a copy or fill of `bytes` bytes. Where the session has no quota tokens
  // left, there is a hold in the stream then. The caller tells the pass what became of the call
  // (started).
  Gate::Pass launch(CUstream stream, KernelCost &kernel, uint64_t blocks) const
      requires(kWork == Work::kKernel) {
    return gate_.launch(stream, kernel, blocks);
  }
  // The same for what another thread than the leader starts, by as many launches as it likes: it is
  // measured by itself. The caller tells the pass when all of it is in the stream (ended).
  Gate::Pass launch_apart(CUstream stream, KernelCost &kernel, uint64_t blocks) const
      requires(kWork == Work::kKernel) {
    return gate_.launch_apart(stream, kernel, blocks);
  }
  Gate::Pass move(CUstream stream, uint64_t bytes) const requires(kWork != Work::kKernel) {
    return gate_.move(kWork, stream, bytes);
  }

 private:
  friend void dispatch(class Session &s, FrameReader &in);
  friend struct GateBench;  // bench/programs/gate.cc
  explicit Starts(Gate &gate) : gate_(gate) {}
  Gate &gate_;
};

}  // namespace outboard
