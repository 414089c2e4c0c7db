#include "gate/meter.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <system_error>
#include <utility>

namespace outboard {

namespace {

// How late a group's end may be noticed when nobody is in a hurry.
constexpr std::chrono::milliseconds kLeisure{5};
// ... and while there is a limit.
constexpr std::chrono::milliseconds kLimited{1};
constexpr std::chrono::microseconds kSoonest{50};
// So many looks at nothing before the thread has to be woken again. A program that launches and
// waits, again and again, should not wake it each time: that would cost more than the launch.
constexpr unsigned kPatience = 20;
// How often what runs is looked at.
constexpr int64_t kLookNs = 5'000'000;
// Of how many streams that are held the thread asks then whether they wait.
constexpr unsigned kHeldAtOnce = 64;

}  // namespace

Meter::Meter(const Driver &driver, CUcontext context, Handlers handlers, uint64_t most_ns,
             Trace *trace)
    : driver_(driver),
      context_(context),
      handlers_(std::move(handlers)),
      most_ns_(most_ns),
      trace_(trace),
      clock_(driver, trace) {
  if (driver_.softwareDeviceWorkNs) by_workers();
  work_of_no_group_ = 0;
}

Meter::~Meter() { stop(); }

void Meter::watch(LaunchGroup *group) {
  std::lock_guard lock(mutex_);
  watched_.push_back(group);
  if (busy_) return;
  busy_ = true;
  if (thread_.joinable()) return arrived_.notify_one();
  try {
    thread_ = std::thread([this] { thread_loop(); });
  } catch (const std::system_error &) {
    busy_ = false;  // the next group tries again
  }
}

void Meter::group_may_end() {
  std::lock_guard lock(mutex_);
  if (!dozing_) return;
  hurried_ = true;
  arrived_.notify_one();
}

void Meter::ends_are_awaited() {
  std::lock_guard lock(mutex_);
  hurried_ = true;
  arrived_.notify_one();
}

void Meter::settle() {
  std::unique_lock lock(mutex_);
  hurried_ = settling_ = true;
  arrived_.notify_one();
  settled_.wait(lock, [this] { return !busy_; });
  settling_ = false;
}

void Meter::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = hurried_ = true;
    arrived_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
  if (frontier_) driver_.cuEventDestroy_v2(frontier_);
  frontier_ = nullptr;
  clock_.close();
}

void Meter::thread_loop() {
  pthread_setname_np(pthread_self(), "outboard-meter");
  handlers_.bind();
  std::unique_lock lock(mutex_);
  unsigned quiet = 0;
  for (;;) {
    if (running_.empty()) {
      changed_ = std::chrono::steady_clock::now();
      reported_by_wall_ = 0;
    }
    running_.insert(running_.end(), watched_.begin(), watched_.end());
    watched_.clear();
    // What is held when all has come to rest is what the driver has dropped.
    if (settling_ || stopping_) {
      std::erase_if(running_, [](const LaunchGroup *group) { return group->held.load(); });
    }
    if (running_.empty()) {
      const bool leisure = handlers_.urgency() == Urgency::kNone;
      if (leisure && !hurried_ && !settling_ && !stopping_ && quiet++ < kPatience) {
        arrived_.wait_for(lock, kLeisure, [this] { return hurried_; });
        continue;
      }
      busy_ = false;
      settled_.notify_all();
      if (stopping_) return;
      arrived_.wait(lock, [this] { return stopping_ || !watched_.empty(); });
      continue;
    }
    quiet = 0;
    hurried_ = false;
    lock.unlock();
    const bool any = harvest();
    look_at_running();
    clock_.refresh();
    const auto pause = how_long();
    lock.lock();
    if (any || running_.empty()) continue;
    dozing_ = all_held();
    arrived_.wait_for(lock, dozing_ ? kLeisure : pause, [this] { return hurried_; });
    dozing_ = false;
  }
}

bool Meter::all_held() const {
  return std::all_of(running_.begin(), running_.end(),
                     [](const LaunchGroup *group) { return group->held.load(); });
}

// ... to look again. When a launch waits for room, it depends on when the oldest group should end;
// the driver's own way to wait could not be called off.
std::chrono::nanoseconds Meter::how_long() const {
  using std::chrono::nanoseconds;
  const Urgency urgency = handlers_.urgency();
  const auto oldest = std::find_if(running_.begin(), running_.end(), [](const LaunchGroup *group) {
    return group->closed && !group->held;
  });
  if (urgency != Urgency::kAwaited || oldest == running_.end()) {
    return urgency == Urgency::kNone ? kLeisure : kLimited;
  }
  const nanoseconds elapsed = std::chrono::steady_clock::now() - changed_;
  const nanoseconds predicted((*oldest)->predicted);
  const nanoseconds left = predicted - predicted / 8 - elapsed;
  return std::clamp<nanoseconds>(left.count() > 0 ? left : elapsed / 16, kSoonest, kLimited);
}

// Finishes what has ended. False when nothing has.
bool Meter::harvest() {
  std::vector<LaunchGroup *> ended;
  // Once more after some have ended: what has not, then, ran until the last of them did.
  size_t before;
  do {
    before = ended.size();
    harvested_ = now_ns();
    take_ended(&ended);
  } while (ended.size() > before);
  if (ended.empty()) return false;
  measure(ended);
  changed_ = std::chrono::steady_clock::now();
  return true;
}

// In one stream groups end one after the other.
void Meter::take_ended(std::vector<LaunchGroup *> *ended) {
  const LaunchGroup *before = nullptr;  // which has not ended
  std::erase_if(running_, [&](LaunchGroup *group) {
    const bool waits = before && group->follows(*before);
    if (!group->closed || group->held ||
        (!group->broken && (waits || driver_.cuEventQuery(group->end) == CUDA_ERROR_NOT_READY))) {
      before = group;
      return false;
    }
    ended->push_back(group);
    return true;
  });
}

// What does not end is counted in steps. In each, the device has spent the time that has passed, or
// what it counted itself, less what events have reported of it; those that run share it.
void Meter::look_at_running() {
  const int64_t now = harvested_;
  if (now - looked_ < kLookNs) return;
  const int64_t before = std::exchange(looked_, now);
  const uint64_t reported = std::exchange(reported_by_events_, 0);
  std::vector<LaunchGroup *> runs;
  int64_t since = now;                // one of those, at least
  const LaunchGroup *last = nullptr;  // it has not ended, or had not a moment ago
  const uint64_t from = std::exchange(held_from_, 0);
  unsigned left = kHeldAtOnce;
  seen_held_.clear();
  bool may_run = false, begun = false;
  for (LaunchGroup *group : running_) {
    const bool waits = last && group->follows(*last);
    last = group;
    if (waits) continue;
    if (group->broken) {
      begun = true;
      continue;
    }
    // Of each stream the first one: those behind it cannot begin sooner.
    if (group->held && seen_held_.insert(group->stream).second && group->sequence >= from) {
      if (left > 0) {
        --left;
        look_at_held(*group);
      } else if (held_from_ == 0) {
        held_from_ = group->sequence;
      }
    }
    if (!group->begun()) continue;
    may_run = true;
    if (group->runs_since != 0) {
      runs.push_back(group);
      since = std::min(since, group->runs_since);
    } else if (driver_.cuEventQuery(group->start) == CUDA_SUCCESS) {
      group->runs_since = now_ns();
      begun = true;
    }
  }
  if (may_run && !begun && runs.empty()) handlers_.none_runs(now);
  if (runs.empty()) return;
  uint64_t spent = 0;
  if (driver_.softwareDeviceWorkNs) {
    const double worked = by_workers();
    work_of_no_group_ += worked;
    spent = static_cast<uint64_t>(worked);
  } else {
    const auto passed = static_cast<uint64_t>(std::max<int64_t>(now - std::max(before, since), 0));
    spent = passed - std::min(passed, reported);
    reported_by_wall_ += spent;
  }
  handlers_.spent(spent);
  Shares shares(spent, static_cast<double>(runs.size()));
  for (LaunchGroup *group : runs) {
    charge(group, shares.next(1));
    if (most_ns_ == 0 || group->overdue) continue;
    const auto ran = static_cast<uint64_t>(now - group->runs_since);
    const uint64_t launches = group->closed ? group->launches : group->with_driver.load();
    if (ran < most_for(launches, most_ns_)) continue;
    group->overdue = true;
    handlers_.overdue(group);
  }
}

// Kernels can write the words by which streams are held, if they find them. What began with such a
// word is not charged before its hold is released, or never; but its first event tells.
void Meter::look_at_held(const LaunchGroup &group) {
  if (slipped_) return;
  // Twice, because a context that fails lets all go, and the first answer may be from before.
  for (int i = 0; i < 2; i++)
    if (driver_.cuEventQuery(group.start) != CUDA_SUCCESS) return;
  // A hold that was released in the meantime is not held any more before its word is written.
  if (!group.held) return;
  slipped_ = true;
  handlers_.slipped();
}

void Meter::charge(LaunchGroup *group, uint64_t ns) {
  group->spent += ns;
  handlers_.running(group, group->spent);
}

void Meter::measure(const std::vector<LaunchGroup *> &groups) {
  const auto whole = std::find_if(groups.begin(), groups.end(),
                                  [](const LaunchGroup *group) { return !group->broken; });
  const CUevent origin = frontier_ ? frontier_ : whole == groups.end() ? nullptr : (*whole)->start;
  std::vector<Ran> ended;
  for (LaunchGroup *group : groups) {
    float from = 0, length = 0;
    const bool measured =
        !group->broken &&
        driver_.cuEventElapsedTime_v2(&length, group->start, group->end) == CUDA_SUCCESS &&
        starts_at(*group, origin, &from);
    Ran one{group, 0, 0, measured};
    if (measured) {
      one.from = from * 1e6;
      one.to = one.from + std::max(length, 0.0f) * 1e6;
    }
    ended.push_back(one);
    if (trace_ && measured) [[unlikely]]
      record(one);
  }
  if (driver_.softwareDeviceWorkNs) {
    share_work(ended);
  } else {
    share_time(ended, origin);
  }
}

bool Meter::starts_at(const LaunchGroup &group, CUevent origin, float *from) const {
  *from = 0;
  return group.start == origin ||
         driver_.cuEventElapsedTime_v2(from, origin, group.start) == CUDA_SUCCESS;
}

// It can have begun no sooner than it was given to the driver, and has ended.
void Meter::record(const Ran &one) {
  const LaunchGroup &group = *one.group;
  const std::optional<uint64_t> start = clock_.time_of(group.start);
  if (!start) return;
  const auto length = static_cast<uint64_t>(one.length());
  const uint64_t to = std::min(*start + length, trace_now());
  trace_->measured(group, std::max(std::min(*start, to), group.traced.since), to);
}

// Where several ran at the same time, each has its part of the work.
void Meter::share_work(const std::vector<Ran> &ended) {
  const double worked = by_workers();
  handlers_.spent(static_cast<uint64_t>(worked));
  double lengths = 0;
  for (const Ran &one : ended) lengths += one.length();
  work_of_no_group_ += worked;
  const double cost = std::min(work_of_no_group_, lengths);
  work_of_no_group_ -= cost;
  Shares shares(static_cast<uint64_t>(cost), lengths);
  for (const Ran &one : ended) {
    const uint64_t ns = shares.next(one.length());
    handlers_.finished(one.group, ns, one.measured && ns > 0);
  }
}

// Shares the time in which anything ran, from the frontier to the latest end, among what ran; what
// has not ended has its part, too. That end becomes the new frontier, so that nothing before it is
// counted again. What look_at_running has reported of that time already is taken off.
void Meter::share_time(std::vector<Ran> &ran, CUevent origin) {
  const double first = frontier_ ? 0 : -std::numeric_limits<double>::infinity();
  double last = first;
  LaunchGroup *latest = nullptr;
  for (const Ran &one : ran) {
    if (one.measured && one.to > last) last = one.to, latest = one.group;
  }
  if (latest) add_running(last, origin, &ran);
  double lengths[2] = {};  // of what has ended, and of what has not
  for (Ran &one : ran) {
    one.from = std::max(one.from, first);
    one.to = std::max(one.to, one.from);
    lengths[one.runs_on] += one.length();
  }
  const auto cost = static_cast<uint64_t>(length_of_union(ran));
  const uint64_t ahead = std::min(reported_by_wall_, cost);
  reported_by_wall_ -= ahead;
  reported_by_events_ += cost - ahead;
  handlers_.spent(cost - ahead);
  // Of what runs on something was reported already, where anything was.
  uint64_t to_ended = cost - ahead;
  if (lengths[1] > 0) {
    const double part = static_cast<double>(cost) * lengths[0] / (lengths[0] + lengths[1]);
    to_ended = std::min(to_ended, static_cast<uint64_t>(part));
  }
  Shares shares[2] = {{to_ended, lengths[0]}, {cost - ahead - to_ended, lengths[1]}};
  if (latest) std::swap(frontier_, latest->end);  // the group makes itself another
  for (const Ran &one : ran) {
    const uint64_t ns = shares[one.runs_on].next(one.length());
    if (one.runs_on) {
      charge(one.group, ns);
    } else {
      const uint64_t all = one.group->spent + ns;
      handlers_.finished(one.group, all, one.measured && all > 0);
    }
  }
}

// In one stream only the first one can have begun.
void Meter::add_running(double until, CUevent origin, std::vector<Ran> *ran) const {
  const LaunchGroup *before = nullptr;
  for (LaunchGroup *group : running_) {
    const bool waits = before && group->follows(*before);
    before = group;
    float from = 0;
    if (waits || group->broken || !starts_at(*group, origin, &from)) continue;
    ran->push_back({group, from * 1e6, until, true, true});
  }
}

double Meter::length_of_union(std::vector<Ran> &ran) {
  std::sort(ran.begin(), ran.end(), [](const Ran &a, const Ran &b) { return a.from < b.from; });
  double sum = 0;
  double until = -std::numeric_limits<double>::infinity();
  for (const Ran &one : ran) {
    if (one.to <= until) continue;
    sum += one.to - std::max(one.from, until);
    until = one.to;
  }
  return sum;
}

// Nanoseconds that all workers of the device together could have done since last asked.
double Meter::by_workers() {
  uint64_t now = 0;
  uint32_t workers = 1;
  if (driver_.softwareDeviceWorkNs(context_, &now, &workers) != CUDA_SUCCESS) return 0;
  const double delta = static_cast<double>(now - worked_) / std::max(workers, 1u);
  worked_ = now;
  return delta;
}

}  // namespace outboard
