// A context: the streams, modules and memory that live and die together, and the error that
// poisons them.
#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/handles.h"
#include "cuda_driver.h"
#include "streams/hidden_memory.h"
#include "streams/print_buffer.h"
#include "streams/stream.h"

namespace softdev::driver {

class Device;
class Instance;

class Context : public Object, public std::enable_shared_from_this<Context> {
 public:
  static constexpr Kind kKind = Kind::kContext;
  Context(Device *on, bool as_primary, unsigned with_flags);

  Device &device() const { return *device_; }
  bool primary() const { return primary_; }
  uint64_t id() const { return id_; }

  // A created context is active until it is destroyed; a primary one while it is retained.
  bool active() const { return active_.load(std::memory_order_acquire); }
  // False: the device has no memory for it.
  bool activate();
  // Waits for its work, then frees all it owns. Afterwards it is not active.
  void tear_down();

  // The error that stays, or CUDA_SUCCESS.
  CUresult error() const { return static_cast<CUresult>(error_.load(std::memory_order_acquire)); }
  bool failed() const { return error() != CUDA_SUCCESS; }
  void fail(CUresult result);

  // Streams ---------------------------------------------------------------------------------------
  std::shared_ptr<Stream> legacy_stream() const { return legacy_; }
  std::shared_ptr<Stream> per_thread_stream();
  // The thread of this number has ended: its stream is not used any more.
  void end_thread(uint64_t thread);
  std::shared_ptr<Stream> create_stream(unsigned flags, int priority);
  // What is queued in it still runs.
  void forget_stream(const std::shared_ptr<Stream> &stream);
  // For the queue: called with its lock held.
  template <class Visit>
  void each_blocking_stream(Visit visit) const {
    std::lock_guard guard(streams_mutex_);
    for (const auto &stream : streams_)
      if (stream->blocking()) visit(*stream);
  }
  uint64_t next_stream_id() { return next_stream_id_.fetch_add(1, std::memory_order_relaxed); }

  // Until all that is queued now is done.
  void drain();
  // How threads wait for its work.
  Waiting waiting() const;
  // Whether all is done.
  bool idle() const;

  // Its streams, the legacy one too.
  std::vector<std::shared_ptr<Stream>> all_streams() const;

  // Events and modules that are to be forgotten with the context.
  void own(uint64_t handle);
  void disown(uint64_t handle);

  // Nanoseconds that the engine's workers have spent on this context's kernels.
  std::atomic<uint64_t> worked_ns{0};

  // What kernels have launched that is not done.
  std::atomic<uint64_t> pending_launches{0};

  // Device printf ---------------------------------------------------------------------------------
  bool print(std::string_view text) { return prints_.put(text); }
  void flush_prints() { prints_.flush(); }
  // False when kernels that print have been launched: their buffer has its size then.
  bool set_print_buffer(size_t size);
  void note_prints() { printing_.store(true, std::memory_order_relaxed); }

  // Contexts whose memory this one's kernels may reach, by handle.
  bool open_peer(const Context &peer);  // false when it is open
  bool close_peer(uint64_t peer);       // false when it is not open
  void close_peers();

  std::atomic<unsigned> attached{1};  // cuCtxAttach

  // Settings without effect on a CPU that programs read back.
  std::atomic<unsigned> flags;
  std::atomic<int> cache_config{0}, shared_config{0};
  // What cuCtxSetLimit has set, or the default.
  size_t limit(CUlimit which);
  std::map<CUlimit, size_t> limits;  // under limits_mutex
  std::mutex limits_mutex;
  HiddenMemory hidden;
  std::atomic<bool> heap_in_use{false};  // some module has its heap for device malloc

 private:
  Device *const device_;
  const bool primary_;
  const uint64_t id_;
  std::atomic<bool> active_{false};
  std::atomic<int> error_{0};
  std::atomic<uint64_t> next_stream_id_{1};

  mutable std::mutex streams_mutex_;
  std::shared_ptr<Stream> legacy_;
  std::vector<std::shared_ptr<Stream>> streams_;  // created and per-thread ones
  std::map<uint64_t, std::shared_ptr<Stream>> per_thread_;

  std::mutex owned_mutex_;
  std::vector<uint64_t> owned_;

  std::mutex peers_mutex_;
  std::map<uint64_t, int> peers_;  // context: device

  PrintBuffer prints_;
  std::atomic<bool> printing_{false};
};

// What a limit is when nobody sets it; 0 for limits that this device has not.
size_t default_limit(CUlimit limit);

// The calling thread's stack of contexts, as handles. Plain storage without a destructor: the
// runtime calls us after the destructors of a thread have run.
class ContextStack {
 public:
  static uint64_t top();
  static void set_top(uint64_t context);  // 0 pops
  static bool push(uint64_t context);     // false when memory is out
  static uint64_t pop();                  // 0 when empty
};

// A number of the calling thread that no other thread of the process had or will have.
uint64_t thread_number();

// Unloads the module of a handle, if it is one (modules/).
void release_module(uint64_t handle);

}  // namespace softdev::driver
