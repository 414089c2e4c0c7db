// Measures how long launch groups have taken, once they have ended. On any driver their events say
// so; a driver that counts its own work (softwareDeviceWorkNs) is asked for that instead.
//
// By events, a session costs the time in which any of its groups ran, so that groups which run side
// by side are not charged twice. A group that does not end for some milliseconds is counted while
// it runs, by the wall clock, from the moment when its first event is seen to be done. So a kernel
// without an end is not free. That is so also while the leader still adds to the group: the leader
// may never come to its end, where the driver takes no more or the guest sends and sends.
//
// The meter has one thread, which sleeps while nothing is under way.
//
// Lock: mutex_, taken under that of the holds. No driver call is made with either: the driver's
// own threads may hold something of the driver's while they wait for that of the holds.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <vector>

#include "gate/launch_group.h"
#include "gate/trace.h"

namespace outboard {

class Meter {
 public:
  // How soon the end of a group has to be known. kNone: only figures depend on it. kLimited: what
  // has been charged does. kAwaited: a launch waits for it.
  enum class Urgency { kNone, kLimited, kAwaited };

  struct Handlers {
    std::function<void()> bind;  // makes the context current to the meter's thread
    std::function<Urgency()> urgency;
    // Is told that the group has ended and has cost `ns` nanoseconds. `measured`: that was
    // measured, and is not what was predicted.
    std::function<void(LaunchGroup *, uint64_t ns, bool measured)> finished;
    // Is told that the device has spent `ns` nanoseconds more.
    std::function<void(uint64_t ns)> spent;
    // Is told that the group has not ended and has cost `ns` nanoseconds so far.
    std::function<void(LaunchGroup *, uint64_t ns)> running;
    // Is told that none of the groups that nothing holds had begun at that moment, by now_ns.
    std::function<void(int64_t then)> none_runs;
    // Is told once that the group has run for longer than it may.
    std::function<void(LaunchGroup *)> overdue;
    // Is told once that work has begun whose hold was not released.
    std::function<void()> slipped;
  };

  // `most_ns` is how many nanoseconds a launch may run; 0: for ever. All that is passed outlives
  // this; `trace` may be null.
  Meter(const Driver &driver, CUcontext context, Handlers handlers, uint64_t most_ns, Trace *trace);
  ~Meter();

  // Measures a group from now on. The driver has its start event, or has refused it (`broken`).
  void watch(LaunchGroup *group);
  // Says that a group which was held, or had not been closed, may end from now on.
  void group_may_end();
  // Returns how many nanoseconds a group of so many launches may run where one may run for
  // `most_ns`. Nobody can tell which of them runs. But only kernels that were short so far are
  // measured together, so all of them get less than twice `most_ns`, and not as much for each.
  static uint64_t most_for(uint64_t launches, uint64_t most_ns) {
    return most_ns +
           most_ns / kMostTogether * (std::clamp<uint64_t>(launches, 1, kMostTogether) - 1);
  }
  // How many launches are measured together where there is a limit to how long one may run.
  static constexpr uint64_t kMostTogether = 8;
  // Says that a hold waits for others to end, and for nothing else: the urgency has grown.
  void ends_are_awaited();
  // Waits until all groups are finished. All work must have come to rest.
  void settle();
  // Waits for the same, and ends the thread.
  void stop();

 private:
  // When a group ran.
  struct Ran {
    LaunchGroup *group;
    double from, to;  // nanoseconds after the end of what was measured before
    bool measured;
    bool runs_on = false;  // it has not ended
    double length() const { return to - from; }
  };

  void thread_loop();
  bool harvest();
  void take_ended(std::vector<LaunchGroup *> *ended);
  bool all_held() const;
  void look_at_running();
  void look_at_held(const LaunchGroup &group);
  std::chrono::nanoseconds how_long() const;
  void charge(LaunchGroup *group, uint64_t ns);
  void measure(const std::vector<LaunchGroup *> &groups);
  bool starts_at(const LaunchGroup &group, CUevent origin, float *from) const;
  void record(const Ran &one);
  void share_work(const std::vector<Ran> &ended);
  void share_time(std::vector<Ran> &ran, CUevent origin);
  void add_running(double until, CUevent origin, std::vector<Ran> *ran) const;
  static double length_of_union(std::vector<Ran> &ran);
  double by_workers();

  const Driver &driver_;
  const CUcontext context_;
  const Handlers handlers_;
  const uint64_t most_ns_;
  Trace *const trace_;
  DeviceClock clock_;  // belongs to the thread while there is one

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable settled_;
  std::vector<LaunchGroup *> watched_;  // not yet taken over by the thread
  bool hurried_ = false;
  bool dozing_ = false;    // the thread sleeps, as all groups are held
  bool settling_ = false;  // somebody waits until no group is left
  bool stopping_ = false;
  bool busy_ = false;  // the thread has groups
  std::thread thread_;

  // The thread's.
  std::vector<LaunchGroup *> running_;
  std::chrono::steady_clock::time_point changed_;  // when the last one ended, or the first came
  CUevent frontier_ = nullptr;   // the latest end so far: what was spent before it is reported
  uint64_t worked_ = 0;          // what the driver's count was when it was last read
  double work_of_no_group_ = 0;  // how much of that count is part of no group's cost yet
  int64_t harvested_ = 0;        // when ended groups were last taken
  int64_t looked_ = 0;           // when running groups were last looked at
  // Nanoseconds reported as spent (Handlers::spent) that must not be reported again: those measured
  // by events since `looked_`, which the next look at what runs takes off the time that has passed;
  // and those by the wall clock after the frontier, which the next measurement by events takes off.
  uint64_t reported_by_events_ = 0, reported_by_wall_ = 0;
  uint64_t held_from_ = 0;  // the group with which the look at those that are held goes on
  std::unordered_set<CUstream> seen_held_;  // streams of which a group was looked at in this look
  bool slipped_ = false;                    // it was told that a hold was not released
};

}  // namespace outboard
