// What a stream is asked to do, apart from when: it is queued at once, or kept in the node of a
// graph and queued at each of its launches.
#pragma once

#include <atomic>
#include <memory>

#include "cuda_driver.h"
#include "streams/stream.h"

namespace softdev::driver {

class Task : public std::enable_shared_from_this<Task> {
 public:
  explicit Task(std::shared_ptr<Context> in) : context(std::move(in)) {}
  virtual ~Task() = default;

  const std::shared_ptr<Context> context;  // where it runs
  virtual CUgraphNodeType type() const = 0;

  // kOnce: nobody asks again, so it may give away what it holds.
  enum class Uses { kOnce, kAgain };
  // Work that does it, ready to be queued.
  virtual Work operation(Uses uses) = 0;

  // Whether the memory it names may still be touched by the driver; with the pin of the memory
  // held. Asked at launches of graphs, if memory was freed meanwhile.
  virtual bool reachable() const { return true; }
};
using TaskRef = std::shared_ptr<Task>;

// Queues a task behind what its stream must wait for; or makes it a node, if the stream is being
// captured.
CUresult submit(const StreamRef &stream, const TaskRef &task);

// Whether a stream may be used now, as far as captures are concerned (graphs/capture.cpp). A call
// that captures forbid invalidates them. What queues work waits here for room in its stream, so no
// lock may be held.
enum class Use {
  kQueue,  // queues work
  kWait,   // waits for it, or asks whether it is done
  kLook,   // as kQueue, and harms no capture
};
extern std::atomic<unsigned> captures;  // that are active; none: everything is allowed
CUresult check_capture(const StreamRef &stream, Use use);
inline CUresult admit(const StreamRef &stream, Use use) {
  if (use == Use::kQueue) stream->wait_for_room();
  if (captures.load(std::memory_order_relaxed) == 0) return CUDA_SUCCESS;
  return check_capture(stream, use);
}

// Whether a call that is unsafe while streams are captured (one that may wait for the device) is
// allowed to the calling thread.
CUresult check_unsafe();
inline CUresult admit_unsafe() {
  return captures.load(std::memory_order_relaxed) == 0 ? CUDA_SUCCESS : check_unsafe();
}
// The same for waiting for all of a context.
CUresult check_context_wait(const Context &context);
inline CUresult admit_wait(const Context &context) {
  return captures.load(std::memory_order_relaxed) == 0 ? CUDA_SUCCESS : check_context_wait(context);
}

// Makes a task a node behind what the stream has captured last.
CUresult capture(const StreamRef &stream, const TaskRef &task);

}  // namespace softdev::driver
