// The gate: whatever starts work on the device passes here, and nothing else can (driver.h,
// WorkDriver). It measures what a session's work costs the device, and holds it back when the
// session has used up its quota tokens (quota_page.h).
//
// Holding back blocks no thread of the session: a hold, which is a host function that waits, goes
// into the stream in front of the work. To everything else the session looks like one whose device
// is busy: order, events, queries and synchronisations stay right by themselves. Holds are released
// as they come up in their streams, those of earlier launches first.
//
// Cost is charged when work starts, as predicted; what takes longer is charged while it runs; and
// all is corrected when it is measured. While there is a limit, little is let through ahead of what
// has ended, so that a prediction can be wrong by one kernel and no more.
//
// Lock: mutex_, which holds take on threads of the driver: no driver call is made with it.
#pragma once

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/counters.h"
#include "gate/kernel_times.h"
#include "gate/launch_group.h"
#include "gate/meter.h"
#include "gate/quota_page.h"
#include "gate/trace.h"
#include "wire/frame.h"

namespace outboard {

enum class Work { kKernel, kCopy, kSet };

struct GateOptions {
  bool copies = false;  // whether copies are held and measured, too
  bool sets = false;
  bool measure = true;  // for measuring what measuring costs
  // How long a launch may run; 0: for ever. Then `overdue` is told of its kernel, on a thread of
  // the gate's.
  uint64_t most_kernel_ns = 0;
  std::function<void(const std::string &kernel)> overdue{};
};

class Gate {
 public:
  // Leave to start one piece of work now: `->` gives the driver's functions that start work, which
  // are to be had in no other way.
  class Pass {
   public:
    const WorkCalls *operator->() const { return calls_; }
    // Takes the call's result: work that did not start costs nothing. The leader's.
    CUresult did(CUresult result) {
      if (result != CUDA_SUCCESS && gate_) [[unlikely]]
        gate_->take_back(*this);
      return result;
    }

   private:
    friend class Gate;
    const WorkCalls *calls_ = nullptr;
    Gate *gate_ = nullptr;  // when there is something to take back
    LaunchGroup *group_ = nullptr;
    KernelCost *kernel_ = nullptr;
    uint64_t blocks_ = 0;
    uint64_t predicted_ = 0;
  };

  Gate(const Driver &driver, CUcontext context, std::shared_ptr<QuotaPage> page, uint64_t session,
       GateOptions options, std::function<void()> bind, Trace *trace = nullptr);
  ~Gate();

  // ---- for the leader --------------------------------------------------------------------------

  // Returns the entry of the kernel of that name, which lives as long as the session.
  KernelCost *kernel(const std::string &name);
  // To be called when what comes next is no launch, or nothing: what was launched is measured by
  // itself from here on.
  void pause() {
    if (current_) close_group();
  }
  // To be called when what comes next is no launch, and launches before and after it may be
  // measured together all the same.
  void go_on() {
    if (current_) current_->posted.store(current_->launches, std::memory_order_release);
  }
  // Waits until all work is measured, which must have come to rest.
  void settle();
  // The same, last of all: nothing passes the gate any more.
  void finish();

  // ---- for any thread --------------------------------------------------------------------------

  // Releases all holds; from now on nothing is held back.
  void open();
  // To be called before a stream is destroyed: one that is made later may have its address.
  void stream_goes() { streams_gone_.fetch_add(1, std::memory_order_relaxed); }
  // Says in the quota page that the session is over; its counters stay until the next one begins.
  void leave();
  // Returns what the kernels that have cost most have cost so far: at most so many, dearest first.
  std::vector<KernelTime> kernel_times(size_t most) { return times_.list(most); }

 private:
  template <Work>
  friend class Starts;

  Pass launch(CUstream stream, KernelCost &kernel, uint64_t blocks);
  Pass move(Work work, CUstream stream, uint64_t bytes);
  Pass enter(CUstream stream, KernelCost &kernel, uint64_t blocks);
  Pass enter_limited(CUstream stream, KernelCost &kernel, uint64_t blocks);
  void take_back(const Pass &pass);

  LaunchGroup *take_group(CUstream stream, const KernelCost &first);
  LaunchGroup *begin_group(CUstream stream, const KernelCost &first);
  void put_hold(LaunchGroup *group);
  void close_group();
  bool has_room(const LaunchGroup *group, const KernelCost &kernel, uint64_t predicted,
                uint64_t most);
  Pass add(LaunchGroup *group, KernelCost &kernel, uint64_t blocks, uint64_t predicted);

  // With the lock.
  void follow_mode(uint64_t mode);
  bool has_quota_tokens();
  bool may_start(uint64_t predicted, bool known);
  void update_counts(LaunchGroup *group);
  void let_run(LaunchGroup *group);

  Meter::Urgency urgency() const;
  void await(LaunchGroup *group);
  void finished(LaunchGroup *group, uint64_t ns, bool measured);
  void runs(LaunchGroup *group, uint64_t ns);
  void remember_long(LaunchGroup *group, uint64_t ns);
  void is_overdue(LaunchGroup *group);

  const Driver &driver_;
  const std::shared_ptr<QuotaPage> page_;
  QuotaWords &words_;
  const GateOptions options_;
  Trace *const trace_;
  KernelTimes times_;
  KernelCost *const copies_;
  KernelCost *const sets_;

  // The leader's, but what a hold stands before is under the lock until it is released.
  LaunchGroup *current_ = nullptr;
  uint64_t groups_begun_ = 0;

  std::atomic<unsigned> want_room_{0};  // holds that only wait for others to end
  std::atomic<size_t> under_way_{0};    // groups begun and not finished
  std::atomic<uint64_t> streams_gone_{0};

  std::mutex mutex_;
  std::vector<std::unique_ptr<LaunchGroup>> all_;
  std::vector<LaunchGroup *> spare_;
  std::vector<LaunchGroup *> arrived_;  // holds that have come up, by sequence
  uint64_t held_groups_ = 0;            // with holds that are not released
  uint64_t running_groups_ = 0;
  uint64_t unknown_groups_ = 0;    // of those
  bool host_quota_token_ = false;  // kModeHostTime: one is being used up
  int64_t host_since_ = 0;         // since when it has not been charged
  bool open_ = false;

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
  // (did).
  Gate::Pass kernel(CUstream stream, KernelCost &kernel, uint64_t blocks) const
      requires(kWork == Work::kKernel) {
    return gate_.launch(stream, kernel, blocks);
  }
  Gate::Pass pass(CUstream stream, uint64_t bytes) const requires(kWork != Work::kKernel) {
    return gate_.move(kWork, stream, bytes);
  }

 private:
  friend void dispatch(class Session &s, FrameReader &in);
  friend struct GateBench;  // bench/programs/gate.cc
  explicit Starts(Gate &gate) : gate_(gate) {}
  Gate &gate_;
};

}  // namespace outboard
