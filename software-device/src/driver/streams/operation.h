// One piece of work in a stream, and the order that CUDA promises between pieces.
//
// An operation starts when everything it must come after is done. Dependencies are found when it
// is queued (stream order, the legacy stream's implicit order, events), and only then; so what is
// queued is a graph without cycles that works itself off.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "trace/trace.h"

namespace softdev::driver {

class Context;
class Room;

enum class Where : uint8_t {
  kInline,   // short and never waits: on the thread that ended what came before
  kCopier,   // on a helper thread: long, but never waits
  kProgram,  // on a helper thread: a function of the program, which may wait for anything
  kEngine,   // `run` starts it, and somebody calls finish() later
  kCaller,   // on the thread that queued it, which waits for its turn
};

// How a thread waits: asleep; awake; or awake, letting others have the processor.
enum class Waiting : uint8_t { kAsleep, kAwake, kYielding };

class Operation : public std::enable_shared_from_this<Operation> {
 public:
  Operation(std::shared_ptr<Context> context, Where where)
      : context_(std::move(context)), where_(where) {}

  // The work; may be empty. Set before queueing.
  std::function<void(Operation &)> run;
  // Called when it is done, whether it ran or not; may be empty. Set before queueing.
  std::function<void()> ended;
  // What the trace says of it; empty when there is none.
  std::unique_ptr<trace::Span> span;
  // Also called in a context that has failed: event records, and callbacks that report errors.
  bool always = false;

  bool done() const { return state_.load(std::memory_order_acquire) == kDone; }
  void wait(Waiting how) const;           // until it is done
  void wait_for_turn(Waiting how) const;  // until what it depends on is done; for kCaller
  // Called once by whoever did the work. Starts what waited for it.
  void finish();
  int64_t finished_ns() const { return finished_ns_; }  // monotonic; meaningful when done
  const std::shared_ptr<Context> &context() const { return context_; }  // until it is done

 private:
  friend class Queue;
  enum : uint32_t { kWaiting, kReady, kDone };

  // Under the queue lock. Does nothing when `before` is done.
  void depend_on(const std::shared_ptr<Operation> &before);
  void watch() const;
  // Until the state is at least `wanted`.
  void wait_until(uint32_t wanted, Waiting how) const;
  static void start(std::shared_ptr<Operation> operation,
                    std::vector<std::shared_ptr<Operation>> *ready);
  static void work_off(std::vector<std::shared_ptr<Operation>> ready);
  void complete(std::vector<std::shared_ptr<Operation>> *ready);
  bool runs() const;

  std::shared_ptr<Context> context_;
  std::atomic<uint32_t> state_{kWaiting};
  const Where where_;
  unsigned pending_ = 0;                                // under the queue lock
  std::vector<std::shared_ptr<Operation>> dependents_;  // under the queue lock
  std::shared_ptr<Room> room_;  // of its stream, in which it takes an entry; empty: none is counted
  int64_t finished_ns_ = 0;
};

using Work = std::shared_ptr<Operation>;

int64_t now_ns();

}  // namespace softdev::driver
