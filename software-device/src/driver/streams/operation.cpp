#include "streams/operation.h"

#include <sched.h>
#include <time.h>

#include <mutex>
#include <thread>

#include "core/driver.h"
#include "spin.h"
#include "streams/context.h"
#include "streams/disorder.h"
#include "streams/stream.h"

namespace softdev::driver {
namespace {

constexpr int64_t kWatchNs = 5'000;
std::mutex queue_mutex;

}  // namespace

int64_t now_ns() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

void Operation::wait(Waiting how) const {
  watch();
  wait_until(kDone, how);
}

void Operation::wait_until(uint32_t wanted, Waiting how) const {
  for (uint32_t state; (state = state_.load(std::memory_order_acquire)) < wanted;) {
    if (how == Waiting::kAsleep)
      state_.wait(state, std::memory_order_acquire);
    else if (how == Waiting::kYielding)
      sched_yield();
    else
      spin_pause();
  }
}

// What is about to be done is waited for awake: to sleep and to be woken would take longer. Not
// where whoever does it needs the same processor.
void Operation::watch() const {
  static const bool alone = std::thread::hardware_concurrency() < 2;
  if (alone || done()) return;
  for (const int64_t until = now_ns() + kWatchNs; !done() && now_ns() < until;)
    for (int i = 0; i < 32 && !done(); i++) spin_pause();
}

void Operation::wait_for_turn(Waiting how) const { wait_until(kReady, how); }

void Operation::depend_on(const Work &before) {
  if (!before || before.get() == this || before->done()) return;
  before->dependents_.push_back(shared_from_this());
  pending_++;
}

bool Operation::runs() const { return run && (always || !context_->failed()); }

void Operation::complete(std::vector<Work> *ready) {
  run = nullptr;  // frees what it held: staging memory, the kernel
  finished_ns_ = now_ns();
  if (span) trace::finished(*span, finished_ns_);
  // A stream keeps its last operation, and the context its streams: what is done lets go.
  std::shared_ptr<Context> context = std::move(context_);
  std::vector<Work> dependents;
  {
    std::lock_guard guard(queue_mutex);
    state_.store(kDone, std::memory_order_release);
    dependents.swap(dependents_);
    for (Work &dependent : dependents)
      if (--dependent->pending_ == 0) ready->push_back(std::move(dependent));
  }
  state_.notify_all();
  if (const std::shared_ptr<Room> room = std::move(room_)) room->give_back();
  if (const std::function<void()> then = std::move(ended)) then();
}

// Starts an operation whose turn it is; what it sets free at once goes to `ready`.
void Operation::start(Work operation, std::vector<Work> *ready) {
  if (operation->span) operation->span->started_ns = now_ns();
  if (operation->where_ == Where::kCaller) {
    operation->state_.store(kReady, std::memory_order_release);
    operation->state_.notify_all();
    return;
  }
  if (!operation->runs()) {
    operation->complete(ready);
    return;
  }
  switch (operation->where_) {
    case Where::kInline:
      operation->run(*operation);
      operation->complete(ready);
      break;
    case Where::kCopier:
    case Where::kProgram: {
      Helpers &helpers =
          operation->where_ == Where::kCopier ? driver()->copiers : driver()->callers;
      auto work = [operation] {
        operation->run(*operation);
        operation->finish();
      };
      if (!helpers.post(work)) {
        operation->run(*operation);
        operation->complete(ready);
      }
      break;
    }
    case Where::kEngine:
      operation->run(*operation);
      break;
    case Where::kCaller:
      break;
  }
}

void Operation::work_off(std::vector<Work> ready) {
  while (!ready.empty()) {
    Work next = std::move(ready.back());
    ready.pop_back();
    if (disorder::on()) {
      disorder::keep_back([next] {
        std::vector<Work> freed;
        start(next, &freed);
        work_off(std::move(freed));
      });
      continue;
    }
    start(std::move(next), &ready);
  }
}

void Operation::finish() {
  std::vector<Work> ready;
  complete(&ready);
  work_off(std::move(ready));
}

// CUDA's implicit order: work in the legacy stream comes after all that is queued in the blocking
// streams of its context, and work in a blocking stream after all that is queued in the legacy one.
void Queue::link(Stream &stream, Operation &operation) {
  operation.depend_on(stream.last_);
  if (operation.span) {
    operation.span->stream = stream.id;
    operation.span->device = operation.context()->device().ordinal;
  }
  Context &context = *operation.context();
  if (stream.role == Stream::Role::kLegacy)
    context.each_blocking_stream([&](const Stream &other) { operation.depend_on(other.last_); });
  else if (stream.blocking())
    operation.depend_on(context.legacy_stream()->last_);
}

void Queue::become_last(Stream &stream, const Work &operation) {
  stream.last_ = operation;
  operation->room_ = stream.room_;
  if (stream.room_) stream.room_->take();
}

void Queue::push(Stream &stream, const Work &operation, const Work &after) {
  {
    std::lock_guard guard(queue_mutex);
    link(stream, *operation);
    operation->depend_on(after);
    become_last(stream, operation);
    if (operation->pending_ != 0) return;
  }
  Operation::work_off({operation});
}

void Queue::order(const Work &before, const Work &after) { after->depend_on(before); }

bool Queue::enqueue(Stream &stream, const Batch &batch, const Work &after) {
  std::lock_guard guard(queue_mutex);
  link(stream, *batch.first);
  batch.first->depend_on(after);
  for (const Batch::Mark &mark : batch.marks) {
    if (mark.record)
      mark.event->recorded_ = mark.work;
    else
      mark.work->depend_on(mark.event->recorded_);
  }
  become_last(stream, batch.last);
  return batch.first->pending_ == 0;
}

bool Queue::enqueue(const Work &work, const Work &after, const Work &and_after) {
  std::lock_guard guard(queue_mutex);
  work->depend_on(after);
  if (and_after != after) work->depend_on(and_after);
  return work->pending_ == 0;
}

void Queue::start(const Work &work) { Operation::work_off({work}); }

bool Queue::idle(const StreamRef &stream) {
  std::lock_guard guard(queue_mutex);
  auto busy = [](const Work &work) { return work && !work->done(); };
  if (busy(stream->last_)) return false;
  if (stream->role == Stream::Role::kLegacy) {
    bool idle = true;
    stream.context->each_blocking_stream(
        [&](const Stream &other) { idle = idle && !busy(other.last_); });
    return idle;
  }
  return !stream->blocking() || !busy(stream.context->legacy_stream()->last_);
}

Work Queue::tail(const Stream &stream) {
  std::lock_guard guard(queue_mutex);
  return stream.last_ && !stream.last_->done() ? stream.last_ : nullptr;
}

void Queue::record(Event &event, const StreamRef &stream) {
  // Its own end is the time of the event.
  auto mark = std::make_shared<Operation>(stream.context, Where::kInline);
  {
    std::lock_guard guard(queue_mutex);
    link(*stream, *mark);
    become_last(*stream, mark);
    event.recorded_ = mark;
    if (mark->pending_ != 0) return;
  }
  Operation::work_off({mark});
}

void Queue::record_all(Event &event, const std::shared_ptr<Context> &context) {
  auto mark = std::make_shared<Operation>(context, Where::kInline);
  std::vector<std::shared_ptr<Stream>> streams = context->all_streams();
  {
    std::lock_guard guard(queue_mutex);
    for (const auto &stream : streams) mark->depend_on(stream->last_);
    event.recorded_ = mark;
    if (mark->pending_ != 0) return;
  }
  Operation::work_off({mark});
}

Work Queue::recorded(const Event &event) {
  std::lock_guard guard(queue_mutex);
  return event.recorded_;
}

Stream::Stream(std::shared_ptr<Context> of, Role as, unsigned with_flags, int with_priority)
    : context(of),
      role(as),
      flags(with_flags),
      priority(with_priority),
      id(of->next_stream_id()),
      room_entries_(driver() ? driver()->settings.traits.queue : 0),
      room_(room_entries_ ? std::make_shared<Room>() : nullptr) {}

void Room::wait(unsigned most) const {
  for (unsigned taken; (taken = taken_.load(std::memory_order_acquire)) >= most;)
    taken_.wait(taken, std::memory_order_acquire);
}

void Room::give_back() {
  taken_.fetch_sub(1, std::memory_order_release);
  taken_.notify_all();
}

}  // namespace softdev::driver
