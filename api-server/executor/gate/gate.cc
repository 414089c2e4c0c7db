#include "gate/gate.h"

#include <algorithm>

namespace outboard {

namespace {

// How much is measured together: enough that two events cost less than a hundredth of it.
constexpr uint64_t kGroupNs = 1'500'000;
// ... and while there is a limit, for that much passes or waits at once.
constexpr uint64_t kQuantumNs = 250'000;
// What may run ahead of what has ended, while there is a limit.
constexpr uint64_t kAheadNs = 2'000'000;
// How long it keeps up the next launch when nothing ends.
constexpr int64_t kMostNsForRoom = 50'000'000;
// A kernel of which nothing is known is measured by itself, so often.
constexpr unsigned kAlone = 2;
// While there is a most that a launch may take: kernels that have taken more than this part of it
// are measured by themselves (Meter::most_for).
constexpr uint64_t kShortPart = 64;
// With more groups than this under way they grow instead, until some have been measured.
constexpr size_t kMostGroups = 4096;
// Beyond all that a grid can be; counters stay far from their ends.
constexpr uint64_t kMostBlocks = uint64_t{1} << 40;

// Nothing is held in these circumstances.
bool is_open(uint64_t mode, uint64_t limit) {
  return mode == kModeOpen || (limit == kNoLimit && mode != kModeHostTime);
}

uint64_t unit_of(uint64_t mode) { return mode == kModeOpen ? kModeDeviceTime : mode; }

}  // namespace

Gate::Gate(const Driver &driver, CUcontext context, std::shared_ptr<QuotaPage> page,
           uint64_t session, GateOptions options, std::function<void()> bind, Trace *trace)
    : driver_(driver),
      page_(std::move(page)),
      words_(page_->words()),
      options_(std::move(options)),
      trace_(trace),
      copies_(kernel("[copy]")),
      sets_(kernel("[set]")),
      meter_(driver, context,
             {std::move(bind), [this] { return urgency(); },
              [this](LaunchGroup *group, uint64_t ns, bool measured) {
                finished(group, ns, measured);
              },
              [this](uint64_t ns) { count(words_.device_ns, ns); },
              [this](LaunchGroup *group, uint64_t ns) { runs(group, ns); },
              [this](LaunchGroup *group) { is_overdue(group); }},
             options_.most_kernel_ns, trace) {
  QuotaWords::Word *const counts[] = {
      &words_.charged,    &words_.device_ns,    &words_.blocks,       &words_.launches,
      &words_.gate_waits, &words_.gate_wait_ns, &words_.in_flight_ns, &words_.held};
  for (QuotaWords::Word *word : counts) word->store(0, std::memory_order_relaxed);
  words_.unit.store(unit_of(words_.mode.load(std::memory_order_relaxed)),
                    std::memory_order_relaxed);
  words_.counted.store(session, std::memory_order_relaxed);
  words_.session.store(session, std::memory_order_release);
}

Meter::Urgency Gate::urgency() const {
  if (want_room_.load(std::memory_order_relaxed) != 0) return Meter::Urgency::kAwaited;
  const bool open = is_open(words_.mode.load(std::memory_order_relaxed),
                            words_.limit.load(std::memory_order_relaxed));
  return open ? Meter::Urgency::kNone : Meter::Urgency::kLimited;
}

Gate::~Gate() { finish(); }

void Gate::open() {
  {
    std::lock_guard lock(mutex_);
    open_ = true;
  }
  page_->wake();
}

void Gate::leave() { words_.session.store(0, std::memory_order_release); }

void Gate::settle() {
  pause();
  meter_.settle();
}

void Gate::finish() {
  pause();
  meter_.stop();
  std::lock_guard lock(mutex_);
  for (const auto &group : all_) {
    if (group->start) driver_.cuEventDestroy_v2(group->start);
    if (group->end) driver_.cuEventDestroy_v2(group->end);
    group->start = group->end = nullptr;
  }
}

// ---- passing -----------------------------------------------------------------------------------

KernelCost *Gate::kernel(const std::string &name) {
  KernelCost *const found = times_.find(name);
  if (trace_ && !found->trace_name) found->trace_name = trace_->name(name);
  return found;
}

Gate::Pass Gate::launch(CUstream stream, KernelCost &kernel, uint64_t blocks) {
  blocks = std::min(blocks, kMostBlocks);
  count_alone(words_.launches);
  count_alone(words_.blocks, blocks);
  return enter(stream, kernel, blocks);
}

// A session's copies and fills are predicted by their bytes. They count as a block each.
Gate::Pass Gate::move(Work work, CUstream stream, uint64_t bytes) {
  if (trace_) [[unlikely]]
    Trace::moves(bytes);
  if (work == Work::kCopy ? options_.copies : options_.sets) [[unlikely]] {
    return enter(stream, work == Work::kCopy ? *copies_ : *sets_, std::max<uint64_t>(bytes, 1));
  }
  Pass pass;
  pass.calls_ = &driver_.work.calls_;
  // Neither is to be part of what kernels are measured to take.
  pause();
  return pass;
}

Gate::Pass Gate::enter(CUstream stream, KernelCost &kernel, uint64_t blocks) {
  const uint64_t mode = words_.mode.load(std::memory_order_relaxed);
  const uint64_t limit = words_.limit.load(std::memory_order_relaxed);
  if (!is_open(mode, limit)) [[unlikely]]
    return enter_limited(stream, kernel, blocks);
  if (!options_.measure) {
    Pass pass;
    pass.calls_ = &driver_.work.calls_;
    return pass;
  }
  const uint64_t predicted = kernel.predict(blocks);
  LaunchGroup *group = current_;
  // A group whose hold may be released at any moment is not ours to change.
  if (!group || group->has_hold || !has_room(group, kernel, predicted, kGroupNs) ||
      group->stream != stream) {
    pause();
    group = begin_group(stream, kernel);
  }
  return add(group, kernel, blocks, predicted);
}

bool Gate::has_room(const LaunchGroup *group, const KernelCost &kernel, uint64_t predicted,
                    uint64_t most) {
  if (group->full || (!kernel.known() && kernel.alone < kAlone)) return false;
  if (options_.most_kernel_ns != 0) {
    if (group->launches >= Meter::kMostTogether || kernel.was_long) return false;
  }
  if (group->predicted + predicted <= most || group->launches == 0) return true;
  return most == kGroupNs && under_way_.load(std::memory_order_relaxed) >= kMostGroups;
}

Gate::Pass Gate::add(LaunchGroup *group, KernelCost &kernel, uint64_t blocks, uint64_t predicted) {
  if (!kernel.known()) {
    group->known = false;
    if (kernel.alone < kAlone) {
      ++kernel.alone;
      group->full = true;
    }
  }
  if (kernel.was_long) group->full = true;
  auto use = std::find_if(group->uses.begin(), group->uses.end(),
                          [&](const LaunchGroup::Use &u) { return u.kernel == &kernel; });
  if (use == group->uses.end())
    use = group->uses.insert(use, LaunchGroup::Use{&kernel, 0, 0, 0, {}});
  ++use->launches;
  use->blocks += blocks;
  use->predicted += predicted;
  group->posted.store(group->launches++, std::memory_order_release);
  group->blocks += &kernel == copies_ || &kernel == sets_ ? 1 : blocks;
  group->predicted += predicted;
  if (trace_) [[unlikely]]
    trace_->joins(*group);
  Pass pass;
  pass.calls_ = &driver_.work.calls_;
  pass.gate_ = this;
  pass.group_ = group;
  pass.kernel_ = &kernel;
  pass.blocks_ = blocks;
  pass.predicted_ = predicted;
  return pass;
}

void Gate::take_back(const Pass &pass) {
  const bool moved = pass.kernel_ == copies_ || pass.kernel_ == sets_;
  if (!moved) {
    count_alone(words_.launches, uint64_t{0} - 1);
    count_alone(words_.blocks, uint64_t{0} - pass.blocks_);
  }
  std::lock_guard lock(mutex_);
  LaunchGroup *group = pass.group_;
  for (LaunchGroup::Use &use : group->uses) {
    if (use.kernel != pass.kernel_) continue;
    --use.launches;
    use.blocks -= pass.blocks_;
    use.predicted -= pass.predicted_;
  }
  --group->launches;
  group->blocks -= moved ? 1 : pass.blocks_;
  group->predicted -= pass.predicted_;
  if (group->has_hold && !group->released) {
    count(words_.held, uint64_t{0} - 1);
  } else if (group->counted) {
    update_counts(group);
  }
}

// While there is a limit, everything is counted as it starts, and may have to wait.
Gate::Pass Gate::enter_limited(CUstream stream, KernelCost &kernel, uint64_t blocks) {
  const uint64_t predicted = kernel.predict(blocks);
  const bool known = kernel.known();
  std::unique_lock lock(mutex_);
  follow_mode(words_.mode.load(std::memory_order_relaxed));
  LaunchGroup *group = current_;
  const bool same = group && group->stream == stream;
  // Blocks are counted to the last one, so each launch has a hold of its own.
  const bool single = words_.unit.load(std::memory_order_relaxed) != kModeDeviceTime;
  if (held_groups_ == 0 && may_start(predicted, known)) {
    // Joins what runs already.
    if (same && (!group->has_hold || group->released) &&
        has_room(group, kernel, predicted, kQuantumNs)) {
      const Pass pass = add(group, kernel, blocks, predicted);
      update_counts(group);
      return pass;
    }
    lock.unlock();
    pause();
    group = begin_group(stream, kernel);
    lock.lock();
    const Pass pass = add(group, kernel, blocks, predicted);
    update_counts(group);
    return pass;
  }
  count(words_.held);
  // Joins what waits already.
  if (same && group->has_hold && !group->released && !single &&
      has_room(group, kernel, predicted, kQuantumNs)) {
    return add(group, kernel, blocks, predicted);
  }
  lock.unlock();
  pause();
  group = take_group(stream, kernel);
  lock.lock();
  group->has_hold = group->held = true;
  ++held_groups_;
  const Pass pass = add(group, kernel, blocks, predicted);
  lock.unlock();
  put_hold(group);
  return pass;
}

// ---- groups ------------------------------------------------------------------------------------

LaunchGroup *Gate::take_group(CUstream stream, const KernelCost &first) {
  LaunchGroup *group = nullptr;
  {
    std::lock_guard lock(mutex_);
    if (!spare_.empty()) {
      group = spare_.back();
      spare_.pop_back();
    } else {
      all_.push_back(std::make_unique<LaunchGroup>());
      group = all_.back().get();
    }
  }
  group->clear();
  group->gate = this;
  group->stream = stream;
  group->first = &first;
  group->sequence = ++groups_begun_;
  group->streams_gone = streams_gone_.load(std::memory_order_relaxed);
  for (CUevent *event : {&group->start, &group->end}) {
    if (*event) continue;
    if (driver_.cuEventCreate(event, CU_EVENT_BLOCKING_SYNC) == CUDA_SUCCESS) continue;
    *event = nullptr;
    group->broken = true;
  }
  under_way_.fetch_add(1, std::memory_order_relaxed);
  return group;
}

LaunchGroup *Gate::begin_group(CUstream stream, const KernelCost &first) {
  LaunchGroup *group = take_group(stream, first);
  if (!group->broken && driver_.cuEventRecord(group->start, stream) != CUDA_SUCCESS) {
    group->broken = true;
  }
  meter_.watch(group);
  return current_ = group;
}

// Puts a hold in front of the group's work.
void Gate::put_hold(LaunchGroup *group) {
  const CUresult posted = driver_.cuLaunchHostFunc(
      group->stream,
      [](void *data) {
        auto *const held = static_cast<LaunchGroup *>(data);
        held->gate->await(held);
      },
      group);
  if (posted != CUDA_SUCCESS) {
    // The device takes no more work, and the work that follows will say so.
    std::lock_guard lock(mutex_);
    let_run(group);
  }
  if (!group->start || driver_.cuEventRecord(group->start, group->stream) != CUDA_SUCCESS) {
    group->broken = true;
  }
  meter_.watch(group);
  current_ = group;
}

void Gate::close_group() {
  LaunchGroup *const group = current_;
  current_ = nullptr;
  const bool ends = group->end && driver_.cuEventRecord(group->end, group->stream) == CUDA_SUCCESS;
  std::lock_guard lock(mutex_);
  if (!ends) group->broken = true;
  group->closed.store(true, std::memory_order_release);
  if (group->held) return;
  update_counts(group);
  meter_.look();
}

// ---- counting, with the lock -------------------------------------------------------------------

void Gate::follow_mode(uint64_t mode) {
  const uint64_t unit = unit_of(mode);
  if (words_.unit.load(std::memory_order_relaxed) == unit) return;
  words_.charged.store(0, std::memory_order_relaxed);
  words_.unit.store(unit, std::memory_order_release);
  host_quota_token_ = false;
}

bool Gate::has_quota_tokens() {
  const uint64_t mode = words_.mode.load(std::memory_order_relaxed);
  const uint64_t limit = words_.limit.load(std::memory_order_acquire);
  follow_mode(mode);
  if (open_ || is_open(mode, limit)) return true;
  const uint64_t charged = words_.charged.load(std::memory_order_relaxed);
  if (mode != kModeHostTime) return charged < limit;
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

bool Gate::may_start(uint64_t predicted, bool known) {
  if (!has_quota_tokens()) return false;
  const uint64_t mode = words_.mode.load(std::memory_order_relaxed);
  if (open_ || mode == kModeHostTime || running_groups_ == 0) return true;
  if (is_open(mode, words_.limit.load(std::memory_order_relaxed))) return true;
  if (!known && unknown_groups_ > 0) return false;
  return words_.in_flight_ns.load(std::memory_order_relaxed) + predicted <= kAheadNs;
}

// Brings the counters of the quota page up to what the group has become. With the lock.
void Gate::update_counts(LaunchGroup *group) {
  if (!group->counted) ++running_groups_;
  group->counted = true;
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

// A group with a hold may run.
void Gate::let_run(LaunchGroup *group) {
  group->released = true;
  group->held.store(false, std::memory_order_release);
  --held_groups_;
  count(words_.held, uint64_t{0} - group->launches);
  update_counts(group);
  // One that is open is looked at soon enough; here the work waits for us.
  if (group->closed) meter_.look();
}

// ---- holds and what releases them ------------------------------------------------------------

// On a thread of the driver, when all that stands before the group in its stream is done.
void Gate::await(LaunchGroup *group) {
  std::unique_lock lock(mutex_);
  const auto earlier = [](const LaunchGroup *a, const LaunchGroup *b) {
    return a->sequence < b->sequence;
  };
  arrived_.insert(std::upper_bound(arrived_.begin(), arrived_.end(), group, earlier), group);
  int64_t lacking_since = 0;
  int64_t room_since = 0;  // since when only what is under way is in its way
  const uint64_t since = trace_ ? trace_now() : 0;
  for (;;) {
    const uint32_t seen = words_.wake.load(std::memory_order_acquire);
    const bool has = has_quota_tokens();
    if (!has && lacking_since == 0) {
      lacking_since = now_ns();
      count(words_.gate_waits);
    }
    if (has && arrived_.front() == group) {
      if (may_start(group->predicted, group->known)) break;
      // Kernels of a program may wait for one another.
      const int64_t now = now_ns();
      if (room_since == 0) {
        room_since = now;
        want_room_.fetch_add(1, std::memory_order_relaxed);
        meter_.hurry();
      }
      if (now - room_since >= kMostNsForRoom) break;
    } else if (room_since != 0) {
      room_since = 0;
      want_room_.fetch_sub(1, std::memory_order_relaxed);
    }
    lock.unlock();
    page_->wait(seen);
    lock.lock();
  }
  if (room_since != 0) want_room_.fetch_sub(1, std::memory_order_relaxed);
  if (lacking_since) {
    count(words_.gate_wait_ns, static_cast<uint64_t>(now_ns() - lacking_since));
  }
  std::erase(arrived_, group);
  if (trace_) trace_->held(*group, since);
  let_run(group);
  if (!arrived_.empty()) page_->wake();
}

// On the meter's thread. What a group is of is told once it is closed and does not change any more.
void Gate::runs(LaunchGroup *group, uint64_t ns) {
  if (group->closed) {
    remember_long(group, ns);
    Shares shares(ns, static_cast<double>(group->predicted));
    for (LaunchGroup::Use &use : group->uses) {
      if (use.launches == 0) continue;
      const uint64_t share = shares.next(static_cast<double>(use.predicted));
      times_.running(use.kernel, use.launches, use.blocks, share, &use.entered);
    }
  }
  std::lock_guard lock(mutex_);
  group->ran = ns;
  const uint64_t unit = words_.unit.load(std::memory_order_relaxed);
  if (unit != kModeDeviceTime) return;
  if (!group->counted) group->unit = unit;
  if (group->unit != unit || ns <= group->charged) return;
  count(words_.charged, ns - group->charged);
  group->charged = ns;
}

// Any of the group's kernels may be the one that took long.
void Gate::remember_long(LaunchGroup *group, uint64_t ns) {
  if (options_.most_kernel_ns == 0 || ns <= options_.most_kernel_ns / kShortPart) return;
  for (const LaunchGroup::Use &use : group->uses) use.kernel->was_long = true;
}

// On the meter's thread.
void Gate::is_overdue(LaunchGroup *group) {
  if (!options_.overdue) return;
  if (!group->closed) return options_.overdue(group->first->name());
  std::string names;
  for (const LaunchGroup::Use &use : group->uses) {
    if (use.launches == 0) continue;
    if (!names.empty()) names += " or ";
    names += use.kernel->name();
  }
  options_.overdue(names);
}

// On the meter's thread.
void Gate::finished(LaunchGroup *group, uint64_t ns, bool measured) {
  remember_long(group, ns);
  Shares shares(ns, static_cast<double>(group->predicted));
  for (const LaunchGroup::Use &use : group->uses) {
    const uint64_t share = shares.next(static_cast<double>(use.predicted));
    times_.measured(use.kernel, use.launches, use.blocks, share, measured, use.entered);
  }
  // What the driver gave no events for was not free.
  if (group->broken) ns = std::max(ns, group->predicted);
  std::lock_guard lock(mutex_);
  const uint64_t unit = words_.unit.load(std::memory_order_relaxed);
  if (group->unit == unit && unit == kModeDeviceTime) count(words_.charged, ns - group->charged);
  count(words_.in_flight_ns, uint64_t{0} - group->in_flight);
  --running_groups_;
  if (group->counted_unknown) --unknown_groups_;
  under_way_.fetch_sub(1, std::memory_order_relaxed);
  spare_.push_back(group);
  if (!arrived_.empty()) page_->wake();
}

}  // namespace outboard
