// Streams and events.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "core/handles.h"
#include "cuda_driver.h"
#include "streams/operation.h"

namespace softdev::driver {

// How much a stream has queued that is not done: kept where streams take so much and no more
// (Traits::queue).
class Room {
 public:
  // Waits until less than `most` is taken.
  void wait(unsigned most) const;
  void take() { taken_.fetch_add(1, std::memory_order_relaxed); }
  void give_back();

 private:
  std::atomic<unsigned> taken_{0};
};

// Held while code is loaded that waits for all work (Traits::lazy_locking), as NVIDIA's driver
// lets nobody start work meanwhile.
class CodeLock {
 public:
  CodeLock() { held_.fetch_add(1, std::memory_order_relaxed); }
  ~CodeLock() {
    held_.fetch_sub(1, std::memory_order_release);
    held_.notify_all();
  }
  CodeLock(const CodeLock &) = delete;
  CodeLock &operator=(const CodeLock &) = delete;

  static void wait() {
    for (unsigned held; (held = held_.load(std::memory_order_acquire)) != 0;)
      held_.wait(held, std::memory_order_acquire);
  }

 private:
  inline static std::atomic<unsigned> held_{0};
};

struct StreamCapture;  // graphs/capture.h
struct EventCapture;
class EventBoard;

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
  // To be called before work is queued, with no lock held: waits where the queue is full, and while
  // code is loaded that waits for all work.
  void wait_for_room() const {
    if (room_ && !capturing()) room_->wait(room_entries_);
    CodeLock::wait();
  }
  std::atomic<bool> destroyed{false};  // only its work is left

  // What was set and can be asked for; it changes nothing here.
  std::mutex attributes_mutex;
  std::map<CUstreamAttrID, CUstreamAttrValue> attributes;

  // Whether what is queued goes into a graph. Changed under the lock of graphs, with `capture`.
  bool capturing() const { return capturing_.load(std::memory_order_relaxed); }
  const std::shared_ptr<StreamCapture> &capture() const { return capture_; }
  void set_capture(std::shared_ptr<StreamCapture> capture) {
    capturing_.store(capture != nullptr, std::memory_order_relaxed);
    capture_ = std::move(capture);
  }

 private:
  friend class Queue;
  std::atomic<bool> capturing_{false};
  std::shared_ptr<StreamCapture> capture_;
  Work last_;  // what was queued last; under the queue lock
  const unsigned room_entries_;
  const std::shared_ptr<Room> room_;  // empty: there is always room
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
  std::shared_ptr<EventBoard> board;  // of one between processes; set when it is made

  // Whether it was last recorded in a stream that was being captured. Under the lock of graphs.
  bool captured() const { return captured_.load(std::memory_order_relaxed); }
  const std::shared_ptr<EventCapture> &capture() const { return capture_; }
  void set_capture(std::shared_ptr<EventCapture> capture) {
    captured_.store(capture != nullptr, std::memory_order_relaxed);
    capture_ = std::move(capture);
  }

 private:
  friend class Queue;
  std::atomic<bool> captured_{false};
  std::shared_ptr<EventCapture> capture_;
  Work recorded_;  // under the queue lock
};

// Work that is queued together, with an order of its own.
struct Batch {
  // What an event is to become, or to be waited for by; in the order of the work.
  struct Mark {
    std::shared_ptr<Event> event;
    Work work;
    bool record;
  };
  Work first;  // before all the rest
  Work last;   // behind all the rest
  std::vector<Mark> marks;
};

// The order between all streams. One lock for the process: it is held for list operations only.
class Queue {
 public:
  // Queues an operation behind what its stream must wait for, and starts it when nothing is left
  // to wait for. `after` is one more operation to wait for, or empty.
  static void push(Stream &stream, const Work &operation, const Work &after = {});

  // Whether an operation queued now would start at once.
  static bool idle(const StreamRef &stream);

  // Puts `after` behind `before`. Both are still to be queued, in one batch.
  static void order(const Work &before, const Work &after);
  // Queues it behind what its stream and it must wait for, `after` included, but starts nothing:
  // true when the first of it is to be started now.
  static bool enqueue(Stream &stream, const Batch &batch, const Work &after);
  // Queues work of no stream behind these two, of which each may be empty.
  static bool enqueue(const Work &work, const Work &after, const Work &and_after);
  // Starts work that waits for nothing.
  static void start(const Work &work);

  static void record(Event &event, const StreamRef &stream);
  // After all that is queued in the context now.
  static void record_all(Event &event, const std::shared_ptr<Context> &context);
  static Work recorded(const Event &event);  // empty when never recorded

  // What has been queued in a stream last, or empty when all is done.
  static Work tail(const Stream &stream);

 private:
  friend class Operation;
  static void link(Stream &stream, Operation &operation);
  static void become_last(Stream &stream, const Work &operation);
};

}  // namespace softdev::driver
