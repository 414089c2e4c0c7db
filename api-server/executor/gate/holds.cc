#include "gate/holds.h"

#include <pthread.h>

#include <algorithm>
#include <system_error>

#include "base/counters.h"

namespace outboard {

namespace {

// What may run ahead of what has ended, while there is a limit.
constexpr uint64_t kAheadNs = 2'000'000;
// ... and so many launches, whatever they are predicted to take: what a kernel has taken so far a
// program can have chosen.
constexpr uint64_t kMostAhead = 64;
// How long the first hold waits for others to end, and for nothing else, before it only needs its
// turn: kernels of a program may wait for one another.
constexpr int64_t kMostNsForEnds = 50'000'000;
// How soon the thread looks whether streams have come to their holds: after an eighth of the time
// that it has waited for that, within these; the second while there are quota tokens, the third
// while there are none. Where all have come it is woken, or looks after a moment.
constexpr std::chrono::nanoseconds kFirstLook{20'000}, kLookToRun{200'000}, kLookAnyway{1'000'000};
constexpr std::chrono::nanoseconds kAsleep{50'000'000};
// Looking takes this part of the time at most, one in so many.
constexpr int kPartOfTime = 20;
// What has not begun so long after it was let run waits in its stream for something else.
constexpr int64_t kBeginsWithinNs = 2'000'000;

}  // namespace

// ---- what may start ----------------------------------------------------------------------------

bool Holds::lets_pass(uint64_t predicted, bool known) {
  follow_mode(words_.mode.load(std::memory_order_relaxed));
  return held_groups_ == 0 && has_quota_tokens() && little_under_way(predicted, known) &&
         has_turn(false);
}

bool Holds::little_under_way(uint64_t predicted, bool known) {
  const uint64_t mode = words_.mode.load(std::memory_order_relaxed);
  if (mode == kModeHostTime || running_groups_ == 0) return true;
  if (holds_nothing(mode, words_.limit.load(std::memory_order_relaxed))) return true;
  if (!known && unknown_groups_ > 0) return false;
  if (running_launches_ >= kMostAhead) return false;
  return words_.in_flight_ns.load(std::memory_order_relaxed) + predicted <= kAheadNs;
}

bool Holds::has_quota_tokens() {
  const uint64_t mode = words_.mode.load(std::memory_order_relaxed);
  const uint64_t limit = words_.limit.load(std::memory_order_acquire);
  follow_mode(mode);
  if (holds_nothing(mode, limit)) return true;
  const uint64_t charged = words_.charged.load(std::memory_order_relaxed);
  if (mode != kModeHostTime)
    return charged + words_.given_back.load(std::memory_order_relaxed) < limit;
  // A quota token, once taken, is used up by the wall, whatever is done with it; waiting for the
  // next one costs nothing.
  const int64_t now = now_ns();
  uint64_t used = 0;
  if (host_quota_token_) {
    const uint64_t left = limit > charged ? limit - charged : 0;
    used = std::min(static_cast<uint64_t>(now - host_since_), left);
    count(words_.charged, used);
  }
  host_since_ = now;
  return host_quota_token_ = charged + used < limit;
}

// Whether ours is the only work on the device. `waits`: where it is not, we wait for that.
bool Holds::has_turn(bool waits) {
  if (words_.mode.load(std::memory_order_relaxed) != kModeDeviceTime) return true;
  if (!uses_device() && turn_.over()) turn_.give_up();
  if (!waits) return turn_.take();
  const bool ours = turn_.take_or_wait();
  words_.queued.store(ours ? 0 : 1, std::memory_order_relaxed);
  return ours;
}

// Nothing may start now.
void Holds::leave_turn() {
  words_.queued.store(0, std::memory_order_relaxed);
  if (!uses_device()) {
    turn_.give_up();
  } else {
    turn_.wait_no_more();
  }
}

void Holds::follow_mode(uint64_t mode) {
  const uint64_t unit = unit_of(mode);
  if (words_.unit.load(std::memory_order_relaxed) == unit) return;
  words_.charged.store(0, std::memory_order_relaxed);
  words_.given_back.store(0, std::memory_order_relaxed);
  words_.unit.store(unit, std::memory_order_release);
  host_quota_token_ = false;
}

// ---- putting a hold ----------------------------------------------------------------------------

Holds::HeldStream *Holds::held_stream_of(CUstream stream) {
  HeldStream *&held_stream = by_stream_[stream];
  if (held_stream) return held_stream;
  if (!spare_streams_.empty()) {
    held_stream = spare_streams_.back();
    spare_streams_.pop_back();
    return held_stream;
  }
  // The last pair of words is shared by all streams for which there is no other.
  if (all_streams_.size() < HoldWords::kMost) {
    const size_t index = all_streams_.size();
    all_streams_.push_back({&all_words_.at(index), index == HoldWords::kMost - 1});
  }
  return held_stream = &all_streams_.back();
}

void Holds::stream_goes(CUstream stream) {
  std::lock_guard lock(mutex_);
  const auto found = by_stream_.find(stream);
  if (found == by_stream_.end()) return;
  HeldStream *const held_stream = found->second;
  by_stream_.erase(found);
  if (held_stream->shared) return;
  held_stream->gone = true;
  if (!held_stream->first) {
    held_stream->gone = false;
    spare_streams_.push_back(held_stream);
  }
}

bool Holds::start_thread() {
  if (thread_.joinable()) return true;
  try {
    thread_ = std::thread([this] { thread_loop(); });
  } catch (const std::system_error &) {
    return false;
  }
  return true;
}

void Holds::put(LaunchGroup *group) {
  HeldStream *held_stream;
  {
    std::lock_guard lock(mutex_);
    group->hold_put = group->held = true;
    ++held_groups_;
    held_stream = held_stream_of(group->stream);
    group->hold_number = ++held_stream->put;
    // Who could not be released is not held.
    if (!start_thread()) return let_run(group);
    if (!held_stream->first) held_streams_.push_back(held_stream);
    (held_stream->first ? held_stream->last->next_held : held_stream->first) = group;
    held_stream->last = group;
  }
  CUstreamBatchMemOpParams entries[2]{};
  entries[0].writeValue.operation = CU_STREAM_MEM_OP_WRITE_VALUE_32;
  entries[0].writeValue.address = reinterpret_cast<CUdeviceptr>(&held_stream->words->reached);
  entries[0].writeValue.value = group->hold_number;
  entries[1].waitValue.operation = CU_STREAM_MEM_OP_WAIT_VALUE_32;
  entries[1].waitValue.address = reinterpret_cast<CUdeviceptr>(&held_stream->words->released);
  entries[1].waitValue.value = group->hold_number;
  entries[1].waitValue.flags = CU_STREAM_WAIT_VALUE_GEQ;
  const CUresult posted = driver_.work.calls_.cuStreamBatchMemOp_v2(group->stream, 2, entries, 0);
  std::lock_guard lock(mutex_);
  // The device takes no more work, and the work that follows will say so.
  if (posted != CUDA_SUCCESS && !group->released) withdraw(held_stream, group);
  wanted_.notify_one();
  if (asleep_) page_.wake();
}

// Of a group whose hold its stream has not got: the last one of that stream.
void Holds::withdraw(HeldStream *held_stream, LaunchGroup *group) {
  if (held_stream->first == group) {
    remove_first(held_stream);
  } else {
    LaunchGroup *before = held_stream->first;
    while (before->next_held != group) before = before->next_held;
    before->next_held = nullptr;
    held_stream->last = before;
  }
  std::erase_if(reached_, [group](const ReachedHold &one) { return one.group == group; });
  if (waits_for_ends_ == group) wait_for_ends(nullptr);
  let_run(group);
}

void Holds::remove_first(HeldStream *held_stream) {
  held_stream->first = held_stream->first->next_held;
  if (held_stream->first) return;
  std::erase(held_streams_, held_stream);
  if (!held_stream->gone) return;
  held_stream->gone = false;
  spare_streams_.push_back(held_stream);
}

// ---- the thread --------------------------------------------------------------------------------

void Holds::thread_loop() {
  pthread_setname_np(pthread_self(), "outboard-holds");
  std::unique_lock lock(mutex_);
  int64_t since = now_ns();
  while (!over_) {
    if (held_streams_.empty()) {
      wanted_.wait(lock, [this] { return over_ || !held_streams_.empty(); });
      since = now_ns();
      continue;
    }
    const uint32_t seen = words_.wake.load(std::memory_order_acquire);
    const int64_t began = now_ns();
    if (look_for_reached()) {
      since = now_ns();
      continue;
    }
    // Nobody tells of a stream that comes to a hold.
    const bool more_to_come = reached_.size() < held_streams_.size();
    const auto most = has_quota_tokens() ? kLookToRun : kLookAnyway;
    const int64_t now = now_ns();
    const std::chrono::nanoseconds waited(now - since), looked(now - began);
    asleep_ = !more_to_come;
    lock.unlock();
    // With thousands of streams a look takes long, and must not take all of a processor.
    const auto pause = std::clamp<std::chrono::nanoseconds>(waited / 8, kFirstLook, most);
    page_.wait(seen, more_to_come ? std::max(pause, kPartOfTime * looked) : kAsleep);
    lock.lock();
    asleep_ = false;
  }
}

void Holds::finish() {
  {
    std::lock_guard lock(mutex_);
    over_ = true;
  }
  wanted_.notify_all();
  page_.wake();
  if (thread_.joinable()) thread_.join();
}

// Takes up which streams have come to their holds, and releases what may start. False when there
// was nothing to do.
bool Holds::look_for_reached() {
  bool any = false;
  for (HeldStream *held_stream : held_streams_) {
    LaunchGroup *const group = held_stream->first;
    if (group->has_come) continue;
    const uint32_t reached =
        std::atomic_ref(held_stream->words->reached).load(std::memory_order_acquire);
    if (!held_stream->shared && static_cast<int32_t>(reached - group->hold_number) < 0) continue;
    group->has_come = any = true;
    const auto earlier = [](const LaunchGroup *a, const ReachedHold &b) {
      return a->sequence < b.group->sequence;
    };
    reached_.insert(std::upper_bound(reached_.begin(), reached_.end(), group, earlier),
                    {group, held_stream, 0, trace_ ? trace_now() : 0});
  }
  while (release_first()) any = true;
  return any;
}

void Holds::wait_for_ends(LaunchGroup *group) {
  if (waits_for_ends_ == group) return;
  waits_for_ends_ = group;
  waits_since_ = now_ns();
  awaits_ends_.store(group != nullptr, std::memory_order_relaxed);
  if (group) meter_.ends_are_awaited();
}

// Releases the earliest hold that has come up, if it may run. False when it may not.
bool Holds::release_first() {
  if (reached_.empty()) return false;
  if (!has_quota_tokens()) {
    wait_for_ends(nullptr);
    for (ReachedHold &one : reached_) {
      if (one.lacking_since != 0) continue;
      one.lacking_since = now_ns();
      count(words_.gate_waits);
    }
    leave_turn();
    return false;
  }
  const ReachedHold one = reached_.front();
  if (!little_under_way(one.group->predicted, one.group->known)) {
    wait_for_ends(one.group);
    if (now_ns() - waits_since_ < kMostNsForEnds) {
      if (!uses_device()) leave_turn();
      return false;
    }
  }
  if (!has_turn(true)) return false;
  wait_for_ends(nullptr);
  if (one.lacking_since)
    count(words_.gate_wait_ns, static_cast<uint64_t>(now_ns() - one.lacking_since));
  reached_.erase(reached_.begin());
  remove_first(one.stream);
  if (trace_) trace_->held(*one.group, one.traced_since);
  const uint32_t hold = one.group->hold_number;
  let_run(one.group);
  std::atomic_ref(one.stream->words->released).store(hold, std::memory_order_release);
  return true;
}

void Holds::turn_came() {
  std::lock_guard lock(mutex_);
  if (wants_turn()) {
    page_.wake();
  } else {
    leave_turn();
  }
}

// A group with a hold may run.
void Holds::let_run(LaunchGroup *group) {
  group->released = true;
  group->held.store(false, std::memory_order_release);
  --held_groups_;
  count(words_.held, uint64_t{0} - group->launches);
  update_counts(group);
  // One that is open is looked at soon enough; here the work waits for us.
  if (group->closed) meter_.group_may_end();
}

// ---- what is charged ---------------------------------------------------------------------------

void Holds::update_counts(LaunchGroup *group) {
  if (!group->counted) {
    ++running_groups_;
    stuck_ = false;
    let_run_at_ = now_ns();
  }
  group->counted = true;
  running_launches_ += group->launches - group->counted_launches;
  group->counted_launches = group->launches;
  if (!group->known && !group->counted_unknown) ++unknown_groups_;
  group->counted_unknown = !group->known;
  const uint64_t unit = words_.unit.load(std::memory_order_relaxed);
  if (group->unit != unit) group->charged = 0;
  group->unit = unit;
  const uint64_t charge = unit == kModeDeviceTime ? std::max(group->predicted, group->ran)
                          : unit == kModeBlocks   ? group->blocks
                                                  : 0;
  count(words_.charged, charge - group->charged);
  group->charged = charge;
  count(words_.in_flight_ns, group->predicted - group->in_flight);
  group->in_flight = group->predicted;
}

void Holds::runs(LaunchGroup *group, uint64_t ns) {
  std::lock_guard lock(mutex_);
  stuck_ = false;
  group->ran = ns;
  const uint64_t unit = words_.unit.load(std::memory_order_relaxed);
  if (unit != kModeDeviceTime) return;
  if (!group->counted) group->unit = unit;
  if (group->unit != unit || ns <= group->charged) return;
  count(words_.charged, ns - group->charged);
  group->charged = ns;
}

void Holds::ended(LaunchGroup *group, uint64_t ns) {
  std::lock_guard lock(mutex_);
  const uint64_t unit = words_.unit.load(std::memory_order_relaxed);
  if (group->unit == unit && unit == kModeDeviceTime) {
    count(words_.charged, ns - group->charged);
    // A long kernel that was a little shorter than predicted would make room for another long one.
    if (ns < group->charged) count(words_.given_back, group->charged - ns);
  }
  count(words_.in_flight_ns, uint64_t{0} - group->in_flight);
  --running_groups_;
  running_launches_ -= group->counted_launches;
  if (group->counted_unknown) --unknown_groups_;
  if (!uses_device() && !wants_turn()) leave_turn();
  if (!held_streams_.empty()) page_.wake();
}

void Holds::none_runs(int64_t then) {
  std::lock_guard lock(mutex_);
  if (running_groups_ == 0 || then - let_run_at_ < kBeginsWithinNs || !turn_.is_waited_for())
    return;
  stuck_ = true;
  if (words_.unit.load(std::memory_order_relaxed) == kModeDeviceTime)
    count(words_.charged, static_cast<uint64_t>(now_ns() - std::max(let_run_at_, turn_.since())));
  leave_turn();
}

Meter::Urgency Holds::urgency() const {
  if (awaits_ends_.load(std::memory_order_relaxed) || turn_.is_waited_for())
    return Meter::Urgency::kAwaited;
  return open() ? Meter::Urgency::kNone : Meter::Urgency::kLimited;
}

}  // namespace outboard
