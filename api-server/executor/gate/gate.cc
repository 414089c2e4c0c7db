#include "gate/gate.h"

#include <algorithm>

namespace outboard {

namespace {

// How much is measured together: enough that two events cost less than a hundredth of it.
constexpr uint64_t kGroupNs = 1'500'000;
// ... and while there is a limit: a group passes or waits as a whole.
constexpr uint64_t kQuantumNs = 250'000;
// ... and so many launches: a prediction may be far too small.
constexpr uint64_t kQuantumLaunches = 32;
// A kernel of which nothing is known is measured by itself, so often.
constexpr unsigned kAlone = 2;
// While there is a most that a launch may take: kernels that have taken more than this part of it
// are measured by themselves (Meter::most_for).
constexpr uint64_t kShortPart = 64;
// With more groups than this under way they grow instead, until some have been measured.
constexpr size_t kMostGroups = 4096;

}  // namespace

Gate::Gate(const Driver &driver, CUcontext context, std::shared_ptr<QuotaPage> page,
           HoldWords &hold_words, std::shared_ptr<TurnPage> turns, unsigned slot, uint64_t session,
           GateOptions options, std::function<void()> bind, Trace *trace)
    : driver_(driver),
      page_(std::move(page)),
      words_(page_->words()),
      options_(std::move(options)),
      trace_(trace),
      copies_(cost_of("[copy]")),
      sets_(cost_of("[set]")),
      holds_(driver, *page_, hold_words, std::move(turns), slot, meter_, trace),
      meter_(driver, context,
             {.bind = std::move(bind),
              .urgency = [this] { return holds_.urgency(); },
              .finished = [this](LaunchGroup *group, uint64_t ns,
                                 bool measured) { finished(group, ns, measured); },
              .spent = [this](uint64_t ns) { count(words_.device_ns, ns); },
              .running = [this](LaunchGroup *group, uint64_t ns) { running(group, ns); },
              .none_runs = [this](int64_t then) { holds_.none_runs(then); },
              .overdue = [this](LaunchGroup *group) { overdue(group); },
              .slipped =
                  [this] {
                    if (options_.slipped) options_.slipped();
                  }},
             options_.most_kernel_ns, trace) {
  QuotaWords::Word *const counts[] = {
      &words_.charged,    &words_.device_ns,    &words_.blocks,       &words_.launches,
      &words_.gate_waits, &words_.gate_wait_ns, &words_.in_flight_ns, &words_.held,
      &words_.queued,     &words_.given_back};
  for (QuotaWords::Word *word : counts) word->store(0, std::memory_order_relaxed);
  words_.unit.store(unit_of(words_.mode.load(std::memory_order_relaxed)),
                    std::memory_order_relaxed);
  words_.counted.store(session, std::memory_order_relaxed);
  words_.session.store(session, std::memory_order_release);
}

Gate::~Gate() { finish(); }

void Gate::leave() { words_.session.store(0, std::memory_order_release); }

void Gate::settle() {
  close_current_group();
  {
    std::unique_lock lock(mutex_);
    apart_ended_.wait(lock, [this] { return apart_ == 0; });
  }
  meter_.settle();
}

void Gate::finish() {
  close_current_group();
  meter_.stop();
  holds_.finish();
  std::lock_guard lock(mutex_);
  for (const auto &group : all_) {
    if (group->start) driver_.cuEventDestroy_v2(group->start);
    if (group->end) driver_.cuEventDestroy_v2(group->end);
    group->start = group->end = nullptr;
  }
}

// ---- passing -----------------------------------------------------------------------------------

KernelCost *Gate::cost_of(const std::string &name) {
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

Gate::Pass Gate::launch_apart(CUstream stream, KernelCost &kernel, uint64_t blocks) {
  close_current_group();
  Pass pass = launch(stream, kernel, blocks);
  if (!current_) return pass;
  // The leader goes on with groups of other work.
  pass.apart_ = current_;
  pass.gate_ = this;
  current_ = nullptr;
  std::lock_guard lock(mutex_);
  ++apart_;
  return pass;
}

void Gate::end_apart(LaunchGroup *group) {
  group->with_driver.store(group->launches, std::memory_order_release);
  close(group);
  std::lock_guard lock(mutex_);
  --apart_;
  apart_ended_.notify_all();
}

// Only where the options say so are copies and fills measured: by their bytes, and as a block each.
Gate::Pass Gate::move(Work work, CUstream stream, uint64_t bytes) {
  if (trace_) [[unlikely]]
    Trace::moves(bytes);
  if (work == Work::kCopy ? options_.copies : options_.sets) [[unlikely]] {
    return enter(stream, work == Work::kCopy ? *copies_ : *sets_, std::max<uint64_t>(bytes, 1));
  }
  Pass pass;
  pass.calls_ = &driver_.work.calls_;
  // Neither is to be part of what kernels are measured to take.
  close_current_group();
  return pass;
}

Gate::Pass Gate::enter(CUstream stream, KernelCost &kernel, uint64_t blocks) {
  if (!holds_.open()) [[unlikely]]
    return enter_limited(stream, kernel, blocks);
  if (!options_.measured) return pass_unmeasured(kernel, blocks);
  const uint64_t predicted = kernel.predict(blocks);
  LaunchGroup *group = current_;
  // A group whose hold may be released at any moment is not ours to change.
  if (!group || group->hold_put || !has_room(group, kernel, predicted, kGroupNs) ||
      group->stream != stream) {
    close_current_group();
    group = begin_group(stream, kernel);
  }
  return add(group, kernel, blocks, predicted);
}

// Nothing is put into the stream beside the launch itself: a group that is open, because work was
// held back until now, ends before it.
Gate::Pass Gate::pass_unmeasured(KernelCost &kernel, uint64_t blocks) {
  close_current_group();
  kernel.count_unmeasured(1, blocks);
  Pass pass;
  pass.calls_ = &driver_.work.calls_;
  pass.gate_ = this;
  pass.kernel_ = &kernel;
  pass.blocks_ = blocks;
  return pass;
}

bool Gate::has_room(const LaunchGroup *group, const KernelCost &kernel, uint64_t predicted,
                    uint64_t most) {
  if (group->full || (!kernel.known() && kernel.alone < kAlone)) return false;
  if (options_.most_kernel_ns != 0) {
    if (group->launches >= Meter::kMostTogether || kernel.was_long) return false;
  }
  if (most == kQuantumNs && group->launches >= kQuantumLaunches) return false;
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
  // The driver has those before it; this one is about to be given to it.
  group->with_driver.store(group->launches++, std::memory_order_release);
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

void Gate::uncount(const Pass &pass) {
  const bool moved = pass.kernel_ == copies_ || pass.kernel_ == sets_;
  if (!moved) {
    count_alone(words_.launches, uint64_t{0} - 1);
    count_alone(words_.blocks, uint64_t{0} - pass.blocks_);
  }
  LaunchGroup *group = pass.group_;
  if (!group) {
    pass.kernel_->count_unmeasured(uint64_t{0} - 1, uint64_t{0} - pass.blocks_);
    return;
  }
  const auto lock = holds_.lock();
  for (LaunchGroup::Use &use : group->uses) {
    if (use.kernel != pass.kernel_) continue;
    --use.launches;
    use.blocks -= pass.blocks_;
    use.predicted -= pass.predicted_;
  }
  --group->launches;
  group->blocks -= moved ? 1 : pass.blocks_;
  group->predicted -= pass.predicted_;
  if (group->waits()) {
    count(words_.held, uint64_t{0} - 1);
  } else if (group->counted) {
    holds_.update_counts(group);
  }
}

// While there is a limit, everything is counted as it starts, and may have to wait.
Gate::Pass Gate::enter_limited(CUstream stream, KernelCost &kernel, uint64_t blocks) {
  const uint64_t predicted = kernel.predict(blocks);
  const bool known = kernel.known();
  auto lock = holds_.lock();
  const bool passes = holds_.lets_pass(predicted, known);
  LaunchGroup *group = current_;
  const bool same = group && group->stream == stream;
  // Where quota tokens are blocks or host time, each launch has a hold of its own.
  const bool own_hold = words_.unit.load(std::memory_order_relaxed) != kModeDeviceTime;
  if (passes) {
    // Joins what runs already.
    if (same && !group->waits() && has_room(group, kernel, predicted, kQuantumNs)) {
      const Pass pass = add(group, kernel, blocks, predicted);
      holds_.update_counts(group);
      return pass;
    }
    lock.unlock();
    close_current_group();
    group = begin_group(stream, kernel);
    lock.lock();
    const Pass pass = add(group, kernel, blocks, predicted);
    holds_.update_counts(group);
    return pass;
  }
  count(words_.held);
  // Joins what waits already.
  if (same && group->waits() && !own_hold && has_room(group, kernel, predicted, kQuantumNs)) {
    return add(group, kernel, blocks, predicted);
  }
  lock.unlock();
  close_current_group();
  group = take_group(stream, kernel);
  const Pass pass = add(group, kernel, blocks, predicted);
  holds_.put(group);
  start(group);
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
  start(group);
  return group;
}

// What comes next in the stream is the group's work.
void Gate::start(LaunchGroup *group) {
  if (group->broken || driver_.cuEventRecord(group->start, group->stream) != CUDA_SUCCESS) {
    group->broken = true;
  }
  meter_.watch(group);
  current_ = group;
}

void Gate::close_group() {
  // Before a call that may wait for room in the driver's queue: what runs meanwhile is measured.
  tell_all_with_driver();
  LaunchGroup *const group = current_;
  current_ = nullptr;
  close(group);
}

void Gate::close(LaunchGroup *group) {
  const bool ends = group->end && driver_.cuEventRecord(group->end, group->stream) == CUDA_SUCCESS;
  const auto lock = holds_.lock();
  if (!ends) group->broken = true;
  group->closed.store(true, std::memory_order_release);
  if (group->held) return;
  holds_.update_counts(group);
  meter_.group_may_end();
}

// ---- what the meter tells, on its thread -------------------------------------------------------

// What a group is of is told once it is closed and does not change any more.
void Gate::running(LaunchGroup *group, uint64_t ns) {
  if (group->closed) {
    remember_long(group, ns);
    Shares shares(ns, static_cast<double>(group->predicted));
    for (LaunchGroup::Use &use : group->uses) {
      if (use.launches == 0) continue;
      const uint64_t share = shares.next(static_cast<double>(use.predicted));
      times_.running(use.kernel, use.launches, use.blocks, share, &use.entered);
    }
  }
  holds_.runs(group, ns);
}

// Any of the group's kernels may be the one that took long.
void Gate::remember_long(LaunchGroup *group, uint64_t ns) {
  if (options_.most_kernel_ns == 0 || ns <= options_.most_kernel_ns / kShortPart) return;
  for (const LaunchGroup::Use &use : group->uses) use.kernel->was_long = true;
}

void Gate::overdue(LaunchGroup *group) {
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

void Gate::finished(LaunchGroup *group, uint64_t ns, bool measured) {
  remember_long(group, ns);
  Shares shares(ns, static_cast<double>(group->predicted));
  for (const LaunchGroup::Use &use : group->uses) {
    const uint64_t share = shares.next(static_cast<double>(use.predicted));
    times_.measured(use.kernel, use.launches, use.blocks, share, measured, use.entered);
  }
  // What the driver gave no events for was not free.
  if (group->broken) ns = std::max(ns, group->predicted);
  holds_.ended(group, ns);
  under_way_.fetch_sub(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  spare_.push_back(group);
}

}  // namespace outboard
