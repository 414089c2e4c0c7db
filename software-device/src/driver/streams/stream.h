// Streams and events.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "core/handles.h"
#include "cuda_driver.h"
#include "streams/operation.h"

namespace softdev::driver {

class Stream : public Object {
 public:
  static constexpr Kind kKind = Kind::kStream;
  enum class Role { kLegacy, kPerThread, kCreated };

  Stream(std::shared_ptr<Context> of, Role as, unsigned with_flags, int with_priority);

  const std::weak_ptr<Context> context;
  const Role role;
  const unsigned flags;
  const int priority;
  const uint64_t id;
  bool blocking() const { return !(flags & CU_STREAM_NON_BLOCKING); }
  std::atomic<bool> destroyed{false};  // only its work is left

 private:
  friend class Queue;
  Work last_;  // what was queued last; under the queue lock
};

// A stream in use, with its context kept alive.
struct StreamRef {
  std::shared_ptr<Stream> stream;
  std::shared_ptr<Context> context;
  Stream &operator*() const { return *stream; }
  Stream *operator->() const { return stream.get(); }
};

class Event : public Object {
 public:
  static constexpr Kind kKind = Kind::kEvent;
  Event(std::shared_ptr<Context> of, unsigned with_flags) : context(of), flags(with_flags) {}
  const std::weak_ptr<Context> context;
  const unsigned flags;

 private:
  friend class Queue;
  Work recorded_;  // under the queue lock
};

// The order between all streams. One lock for the process: it is held for list operations only.
class Queue {
 public:
  // Queues an operation behind what its stream must wait for, and starts it when nothing is left
  // to wait for. `after` is one more operation to wait for, or empty.
  static void push(Stream &stream, const Work &operation, const Work &after = {});

  // Whether an operation queued now would start at once.
  static bool idle(const StreamRef &stream);

  static void record(Event &event, const StreamRef &stream);
  static Work recorded(const Event &event);  // empty when never recorded

  // What has been queued in a stream last, or empty when all is done.
  static Work tail(const Stream &stream);

 private:
  friend class Operation;
  static void link(Stream &stream, Operation &operation);
};

}  // namespace softdev::driver
