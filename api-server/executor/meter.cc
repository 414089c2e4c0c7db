#include "meter.h"

#include <pthread.h>

#include <algorithm>
#include <chrono>
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

int64_t now_ns() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

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
  unclaimed_ = 0;
}

Meter::~Meter() { stop(); }

void Meter::watch(Group *group) {
  std::lock_guard lock(mutex_);
  watched_.push_back(group);
  if (busy_) return;
  busy_ = true;
  if (thread_.joinable()) return arrived_.notify_one();
  try {
    thread_ = std::thread([this] { work(); });
  } catch (const std::system_error &) {
    busy_ = false;  // the next group tries again
  }
}

void Meter::look() {
  std::lock_guard lock(mutex_);
  if (!dozing_) return;
  hurried_ = true;
  arrived_.notify_one();
}

void Meter::hurry() {
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

void Meter::work() {
  pthread_setname_np(pthread_self(), "outboard-meter");
  handlers_.bind();
  std::unique_lock lock(mutex_);
  unsigned quiet = 0;
  for (;;) {
    if (running_.empty()) changed_ = std::chrono::steady_clock::now();
    running_.insert(running_.end(), watched_.begin(), watched_.end());
    watched_.clear();
    // What is held when all has come to rest is what the driver has dropped.
    if (settling_ || stopping_) {
      std::erase_if(running_, [](const Group *group) { return group->held.load(); });
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
                     [](const Group *group) { return group->held.load(); });
}

// ... to look again. When a launch waits for room, it depends on when the oldest group should end;
// the driver's own way to wait could not be called off.
std::chrono::nanoseconds Meter::how_long() const {
  using std::chrono::nanoseconds;
  const Urgency urgency = handlers_.urgency();
  const auto oldest = std::find_if(running_.begin(), running_.end(), [](const Group *group) {
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

// Finishes what has ended. False when nothing has. In one stream groups end one after the other.
bool Meter::harvest() {
  std::vector<Group *> ended;
  const Group *before = nullptr;  // which has not ended
  std::erase_if(running_, [&](Group *group) {
    const bool waits = before && group->follows(*before);
    if (!group->closed || group->held ||
        (!group->broken && (waits || driver_.cuEventQuery(group->end) == CUDA_ERROR_NOT_READY))) {
      before = group;
      return false;
    }
    ended.push_back(group);
    return true;
  });
  if (ended.empty()) return false;
  measure(ended);
  changed_ = std::chrono::steady_clock::now();
  return true;
}

// What does not end is counted in steps. In each, the device has spent the time that has passed, or
// what it counted itself, less what groups have cost that ended meanwhile; those that run share it.
void Meter::look_at_running() {
  const int64_t now = now_ns();
  const int64_t passed = now - looked_;
  if (passed < kLookNs) return;
  looked_ = now;
  const uint64_t told = std::exchange(told_, 0);
  std::vector<Group *> runs;
  const Group *before = nullptr;  // it has not ended, or had not a moment ago
  for (Group *group : running_) {
    const bool waits = before && group->follows(*before);
    before = group;
    if (group->broken || waits || !group->begun()) continue;
    if (group->runs_since != 0) {
      runs.push_back(group);
    } else if (driver_.cuEventQuery(group->start) == CUDA_SUCCESS) {
      group->runs_since = now;
    }
  }
  if (runs.empty()) return;
  double spent = 0;
  if (driver_.softwareDeviceWorkNs) {
    spent = by_workers();
    unclaimed_ += spent;
  } else {
    spent = std::max<double>(0, static_cast<double>(passed) - static_cast<double>(told));
  }
  handlers_.spent(static_cast<uint64_t>(spent));
  Shares shares(static_cast<uint64_t>(spent), static_cast<double>(runs.size()));
  for (Group *group : runs) {
    group->spent += shares.next(1);
    handlers_.running(group, group->spent);
    if (most_ns_ == 0 || group->overdue) continue;
    const auto ran = static_cast<uint64_t>(now - group->runs_since);
    const uint64_t launches = group->closed ? group->launches : group->posted.load();
    if (ran < most_for(launches, most_ns_)) continue;
    group->overdue = true;
    handlers_.overdue(group);
  }
}

void Meter::measure(std::vector<Group *> &groups) {
  std::vector<Ended> ended;
  const CUevent origin = frontier_ ? frontier_ : groups.empty() ? nullptr : groups.front()->start;
  double lengths = 0;
  for (Group *group : groups) {
    float from = 0, length = 0;
    const bool measured =
        !group->broken &&
        driver_.cuEventElapsedTime_v2(&length, group->start, group->end) == CUDA_SUCCESS &&
        (group->start == origin ||
         driver_.cuEventElapsedTime_v2(&from, origin, group->start) == CUDA_SUCCESS);
    Ended one{group, from * 1e6, (from + std::max(length, 0.0f)) * 1e6, measured};
    if (!measured) one.from = 0, one.to = 0;
    lengths += one.length();
    ended.push_back(one);
    if (trace_ && measured) [[unlikely]]
      record(one);
  }
  // Where several ran at the same time, each has its part of the time that it took all of them.
  double cost = by_events(ended);
  if (driver_.softwareDeviceWorkNs) {
    const double worked = by_workers();
    unclaimed_ += worked;
    cost = std::min(unclaimed_, lengths);
    unclaimed_ -= cost;
    handlers_.spent(static_cast<uint64_t>(worked));
  } else {
    // What was counted while it ran has been told, and stands: others may have ended beside it.
    double before = 0;
    for (const Ended &one : ended) before += static_cast<double>(one.group->spent);
    cost = std::max(cost, before);
    handlers_.spent(static_cast<uint64_t>(cost - before));
    told_ += static_cast<uint64_t>(cost - before);
  }
  Shares shares(static_cast<uint64_t>(cost), lengths);
  for (const Ended &one : ended) {
    const uint64_t ns = shares.next(one.length());
    handlers_.finished(one.group, ns, one.measured && ns > 0);
  }
}

// It can have begun no sooner than it was given to the driver, and has ended.
void Meter::record(const Ended &one) {
  const Group &group = *one.group;
  const std::optional<uint64_t> start = clock_.time_of(group.start);
  if (!start) return;
  const auto length = static_cast<uint64_t>(one.length());
  const uint64_t to = std::min(*start + length, trace_now());
  trace_->measured(group, std::max(std::min(*start, to), group.traced.since), to);
}

// The length of the union of the intervals, as far as it comes behind what was measured before.
double Meter::by_events(std::vector<Ended> &ended) {
  std::sort(ended.begin(), ended.end(),
            [](const Ended &a, const Ended &b) { return a.from < b.from; });
  double sum = 0;
  double until = 0;  // the frontier; the first start, when there is none
  Group *last = nullptr;
  bool any = frontier_ != nullptr;
  for (const Ended &one : ended) {
    if (!one.measured) continue;
    if (!any) until = one.from;
    any = true;
    if (one.to <= until) continue;
    sum += one.to - std::max(one.from, until);
    until = one.to;
    last = one.group;
  }
  // The group goes on with another event.
  if (last && !frontier_ && driver_.cuEventCreate(&frontier_, 0) != CUDA_SUCCESS) {
    frontier_ = nullptr;
    return sum;
  }
  if (last) std::swap(frontier_, last->end);
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
