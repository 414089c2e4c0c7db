// The holds of a session, and what releases them. A hold is a word in pinned memory that a stream
// waits for, in front of a launch group, and another that says when the stream has come to it
// (hold_words.h). Nothing of the driver's waits with it: a driver may call all host functions one
// after the other, and one of ours that waited would keep those of the program.
//
// A thread of their own, which there is while a session has been held, looks at the words of the
// streams that are held. A hold to which its stream has come is released when there are quota
// tokens and little enough is under way; then the group is charged and runs.
//
// Cost is charged when work starts, as predicted; what takes longer is charged while it runs; and
// all is corrected when it is measured. While there is a limit, little is let through ahead of what
// has ended, so that a prediction can be wrong by one kernel and no more. And where several slots
// use the device, it must be the session's turn (turn.h): it takes turns only while quota tokens
// are of the device's time, and has one from its first group until the last of them has ended.
//
// Lock: the one that `lock` gives. No driver call is made with it. The meter's is taken under it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/driver.h"
#include "gate/hold_words.h"
#include "gate/launch_group.h"
#include "gate/meter.h"
#include "gate/quota_page.h"
#include "gate/trace.h"
#include "gate/turn.h"

namespace outboard {

class Holds {
 public:
  // `meter` may be made after this; `trace` may be null, and so may `turns`, which is of all slots
  // of the device.
  Holds(const Driver &driver, QuotaPage &page, HoldWords &all_words,
        std::shared_ptr<TurnPage> turns, unsigned slot, Meter &meter, Trace *trace)
      : driver_(driver),
        page_(page),
        words_(page.words()),
        all_words_(all_words),
        meter_(meter),
        trace_(trace),
        turn_(std::move(turns), slot, [this] { turn_came(); }) {}
  ~Holds() { finish(); }

  // Whether everything passes now, whatever it has cost so far.
  bool open() const {
    return holds_nothing(words_.mode.load(std::memory_order_relaxed),
                         words_.limit.load(std::memory_order_relaxed));
  }
  // How soon the end of a group has to be known.
  Meter::Urgency urgency() const;
  // To be called before a stream is destroyed: one that is made later may have its address.
  void stream_goes(CUstream stream);
  // Ends the thread. Nothing is held any more, or the driver has dropped it.
  void finish();

  // ---- for the leader --------------------------------------------------------------------------

  // A group with a hold is changed with the lock only, until the hold is released.
  std::unique_lock<std::mutex> lock() { return std::unique_lock(mutex_); }
  // Returns whether work of that cost may start now, ahead of nothing that is held. `known`: its
  // kernel has been measured before. With the lock.
  bool lets_pass(uint64_t predicted, bool known);
  // Puts a hold in front of a group that the driver has nothing of.
  void put(LaunchGroup *group);
  // Brings the counters of the quota page up to what the group has become. With the lock.
  void update_counts(LaunchGroup *group);

  // ---- for the meter's thread ------------------------------------------------------------------

  // Charges what a group that has not ended has cost so far.
  void runs(LaunchGroup *group, uint64_t ns);
  // Charges what a group has cost, and lets the next ones look whether they may start.
  void ended(LaunchGroup *group, uint64_t ns);
  // None of the groups that may run had begun at that moment (now_ns): their streams wait for
  // something else. While others wait for our turn, that is no use of it: it ends, and the session
  // is charged for it.
  void none_runs(int64_t then);

 private:
  static bool holds_nothing(uint64_t mode, uint64_t limit) {
    return mode == kModeOpen || (limit == kNoLimit && mode != kModeHostTime);
  }
  // A stream that is, or was, held.
  struct HeldStream {
    HoldWords::Words *words;
    bool shared;       // by streams for which there were no words of their own
    uint32_t put = 0;  // how many holds it has had
    LaunchGroup *first = nullptr, *last = nullptr;  // with those that are not released
    bool gone = false;                              // the stream is destroyed
  };
  // A hold that its stream has come to.
  struct ReachedHold {
    LaunchGroup *group;
    HeldStream *stream;
    int64_t lacking_since = 0;  // since when there are no quota tokens for it
    uint64_t traced_since = 0;
  };

  void thread_loop();
  void turn_came();

  // With the lock.
  bool start_thread();
  HeldStream *held_stream_of(CUstream stream);
  bool look_for_reached();
  bool release_first();
  void wait_for_ends(LaunchGroup *group);
  void remove_first(HeldStream *held_stream);
  void withdraw(HeldStream *held_stream, LaunchGroup *group);
  // Whether little enough is under way, given that there are quota tokens.
  bool little_under_way(uint64_t predicted, bool known);
  bool has_quota_tokens();
  bool has_turn(bool waits);
  bool wants_turn() { return !reached_.empty() && has_quota_tokens(); }
  // Whether something of ours may be at work on the device.
  bool uses_device() const { return running_groups_ > 0 && !stuck_; }
  void leave_turn();
  void follow_mode(uint64_t mode);
  void let_run(LaunchGroup *group);

  const Driver &driver_;
  QuotaPage &page_;
  QuotaWords &words_;
  HoldWords &all_words_;
  Meter &meter_;
  Trace *const trace_;

  std::atomic<bool> awaits_ends_{false};  // a hold only waits for others to end

  std::mutex mutex_;
  std::deque<HeldStream> all_streams_;                    // all that were ever used
  std::vector<HeldStream *> spare_streams_;               // of those: of no stream
  std::unordered_map<CUstream, HeldStream *> by_stream_;  // of streams that are there
  std::vector<HeldStream *> held_streams_;                // with holds that are not released
  std::vector<ReachedHold> reached_;                      // by sequence of their groups
  const LaunchGroup *waits_for_ends_ = nullptr;  // the first one, which waits for others to end,
  int64_t waits_since_ = 0;                      // and since when
  uint64_t held_groups_ = 0;                     // with holds that are not released
  uint64_t running_groups_ = 0;
  uint64_t unknown_groups_ = 0;    // of those
  uint64_t running_launches_ = 0;  // in them
  bool stuck_ = false;             // none of them had begun when the meter last looked
  int64_t let_run_at_ = 0;         // when the last of them was let run
  bool host_quota_token_ = false;  // kModeHostTime: one is being used up
  int64_t host_since_ = 0;         // since when it has not been charged

  // The thread: whether it sleeps until something is held, or until the wake word changes.
  std::condition_variable wanted_;
  bool asleep_ = false;
  bool over_ = false;
  std::thread thread_;
  Turn turn_;  // last: its thread calls us
};

}  // namespace outboard
