// Measures how long groups of launches have taken, once they have ended: on any driver by their
// events, and on one that counts its work (softwareDeviceWorkNs) by that. By events, a session's
// cost is the time in which any of its groups ran: up to the latest end, with what runs on. What
// does not end for some milliseconds is counted while it runs, by the wall from when its first
// event is seen to be done, so that a kernel without an end is not free; also while the leader
// still adds to the group, for it may never come to the end of that: it is kept by a driver that
// takes no more, or by a guest that sends and sends. One thread, which sleeps while nothing is
// under way.
//
// Lock: mutex_, taken under the gate's. No driver call is made with either: the driver's own
// threads may hold something of the driver's while they wait for the gate's.
#pragma once

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "gate/launch_group.h"
#include "gate/trace.h"

namespace outboard {

class Meter {
 public:
  // How soon it matters that a group has ended: for figures only, for what has been charged, or
  // because a launch waits for it.
  enum class Urgency { kNone, kLimited, kAwaited };

  struct Handlers {
    std::function<void()> bind;  // prepares the thread
    std::function<Urgency()> urgency;
    // The group has ended and cost so much. `measured`: that is not just what was predicted.
    std::function<void(LaunchGroup *, uint64_t ns, bool measured)> finished;
    // The device has spent so much more.
    std::function<void(uint64_t ns)> spent;
    // The group has not ended and has cost so much so far.
    std::function<void(LaunchGroup *, uint64_t ns)> running;
    // The group has run for longer than it may; told once.
    std::function<void(LaunchGroup *)> overdue;
  };

  // `most_ns`: how long a launch may run; 0: for ever.
  Meter(const Driver &driver, CUcontext context, Handlers handlers, uint64_t most_ns, Trace *trace);
  ~Meter();

  // A group that has begun in its stream: the driver has its start event, and gets work.
  void watch(LaunchGroup *group);
  // One of those may end from now on, and has been held.
  void look();
  // How long a group of so many launches may run where one may run for `most_ns`. Which of them it
  // is that runs nobody can tell; but only kernels that were short so far are measured together, so
  // they get less than twice as much between them, and not that much each.
  static uint64_t most_for(uint64_t launches, uint64_t most_ns) {
    return most_ns +
           most_ns / kMostTogether * (std::clamp<uint64_t>(launches, 1, kMostTogether) - 1);
  }
  // While there is a most that a launch may run: how many are measured together.
  static constexpr uint64_t kMostTogether = 8;
  // How soon one has ended matters more from now on.
  void hurry();
  // Waits until all that is watched is finished; all work must have come to rest.
  void settle();
  // The same, and the thread ends.
  void stop();

 private:
  struct Ran {
    LaunchGroup *group;
    double from, to;  // nanoseconds after the end of what was measured before
    bool measured;
    bool runs_on = false;
    double length() const { return to - from; }
  };

  void work();
  bool harvest();
  void take_ended(std::vector<LaunchGroup *> *ended);
  bool all_held() const;
  void look_at_running();
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
  DeviceClock clock_;  // the thread's, while there is one

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::condition_variable settled_;
  std::vector<LaunchGroup *> watched_;  // not yet taken over by the thread
  bool hurried_ = false;
  bool dozing_ = false;    // all is held
  bool settling_ = false;  // somebody waits until nothing is left
  bool stopping_ = false;
  bool busy_ = false;  // the thread has some
  std::thread thread_;

  // The thread's.
  std::vector<LaunchGroup *> running_;
  std::chrono::steady_clock::time_point changed_;  // when the last one ended, or the first came
  CUevent frontier_ = nullptr;                     // the latest end so far: all before is told
  uint64_t worked_ = 0;                            // the driver's count when last read
  double unclaimed_ = 0;                           // of it, not yet part of any group's cost
  int64_t harvested_ = 0;                          // what runs ran then
  int64_t looked_ = 0;                             // at what runs
  uint64_t told_ = 0;                              // spent, by events since then
  uint64_t ahead_ = 0;                             // spent, by the wall, of time after the frontier
};

}  // namespace outboard
