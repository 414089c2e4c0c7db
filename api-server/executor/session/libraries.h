// What a session has of libraries: handles behind those that its guest has minted, and what their
// calls have cost. It belongs to the leader, unless it says otherwise.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>

#include "base/handles.h"
#include "device/device.h"
#include "libraries/cublas.h"
#include "libraries/learnt_calls.h"
#include "libraries/library_arguments.h"

namespace outboard {

class Libraries {
 public:
  Libraries(Device &device, Gate &gate)
      : device_(device), gate_(gate), learnt_(device.libraries_name()) {}

  // Null where the device has none.
  const Cublas *cublas() const { return device_.cublas(); }

  // Whether the guest may give a new handle that number.
  bool can_mint(uint64_t handle) const { return handles_.can_mint(handle); }
  // Whether it has none, nor anything else that only this machine's libraries know.
  bool empty() const { return count_ == 0 && algos_.empty(); }
  // Whether it may have one more.
  bool has_room() const;
  void keep(uint64_t handle, std::shared_ptr<CublasHandle> object);
  // Null when there is none.
  std::shared_ptr<CublasHandle> find(uint64_t handle);
  std::shared_ptr<CublasHandle> take(uint64_t handle);

  // Returns the entry of what such a call costs.
  KernelCost *cost_of(uint32_t function, const LibraryArguments &arguments);
  KernelCost *cost_of(const LtArguments &arguments);

  // Returns the handle of cuBLASLt, which serves all that the guest has; made when it is first
  // needed. nullptr: `status` says why. May block; any thread.
  void *lt_handle(int *status);
  // The same if there is one. Any thread.
  void *lt_handle_there() const { return lt_handle_.load(std::memory_order_acquire); }
  // Algorithms of cuBLASLt that the session was given. Any thread.
  LtAlgos &algos() { return algos_; }
  // What sessions of the function have learnt. It outlives a reset. Any thread.
  LearntCalls &learnt() { return learnt_; }

  // Says that a call was refused, which a program may have again and again: of so many a line each.
  void say_refused(uint64_t session, const std::string &what);

  // Ends all handles. No work is under way, and nobody uses any.
  void release();

 private:
  Device &device_;
  Gate &gate_;
  HandleTable<std::shared_ptr<CublasHandle>, WIRE_KIND_LIBRARY> handles_;
  size_t count_ = 0;
  std::unordered_map<uint64_t, KernelCost *> costs_;
  std::unordered_map<std::string, KernelCost *> lt_costs_;
  LtAlgos algos_;
  LearntCalls learnt_;
  unsigned refusals_ = 0;
  std::mutex lt_mutex_;
  std::atomic<void *> lt_handle_ = nullptr;
};

}  // namespace outboard
